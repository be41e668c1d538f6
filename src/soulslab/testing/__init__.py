"""Contract suites, fakes and small environments for tests of soulslab and of code that extends it."""
