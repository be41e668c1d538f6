"""Search for hyperparameters: candidates are drawn, trained, compared and stopped early (`running.tune`)."""
