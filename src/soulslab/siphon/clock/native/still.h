#ifndef SOULSLAB_STILL_H
#define SOULSLAB_STILL_H

#include "clock_page.h"

/* Whether nothing of the game can run while the clock stands at this generation; false also if that cannot be told. */
bool clock_is_still(struct clock_page *page, int pid, uint32_t generation);

#endif
