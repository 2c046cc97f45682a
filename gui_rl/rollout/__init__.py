"""Episodes: samplers (where responses come from), environment clients (where observations come from), their groups."""
