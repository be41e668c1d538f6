from importlib import import_module

import pytest

from soulslab.siphon.process.image import read_image
from soulslab.siphon.tick_alignment import TickAlignment

OLD_IMAGE, OLD_PHASE = (import_module(f"soulslab.siphon.{name}") for name in ("image", "phase"))


def test_old_names_are_available_with_a_deprecation_warning():
    with pytest.warns(DeprecationWarning, match="use soulslab.siphon.process.image.read_image"):
        assert OLD_IMAGE.read_image is read_image
    with pytest.warns(DeprecationWarning, match="use soulslab.siphon.tick_alignment.TickAlignment"):
        assert OLD_PHASE.Phase is TickAlignment


@pytest.mark.parametrize("module", [OLD_IMAGE, OLD_PHASE])
def test_other_names_are_attribute_errors(module):
    with pytest.raises(AttributeError, match="has no attribute 'other'"):
        _ = module.other
