"""Random weight factorization in the models of other frameworks; each is imported when it is used."""
