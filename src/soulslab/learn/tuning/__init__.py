"""Search for hyperparameters: candidates are drawn, trained, compared and stopped early.

``settings`` defines a study and ``space`` its search space. ``folder`` and ``trial_store`` keep the study on disk.
``trial`` trains one candidate, ``worker_pool`` several at once. ``running`` is the main loop. ``report`` and
``picture`` present the results.
"""
