"""The built-in duel: rules, bosses and a vectorised simulator. Knows no process and no learning."""
