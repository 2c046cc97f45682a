"""The language that policies, environment servers and their clients share: actions (pure) and messages (JSON over HTTP)."""
