"""Search for hyperparameters: candidates are drawn, trained, compared and stopped early.

``settings`` defines a study and ``search_space`` its search space. ``study_folder`` and ``trial_store`` keep the study
on disk. ``trial`` trains one candidate, ``worker_pool`` several at once. ``running`` is the main loop. ``study_report``
and ``study_plot`` present the results.
"""
