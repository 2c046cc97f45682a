"""The language that policies, environment servers and clients share: actions (pure) and messages (JSON over HTTP)."""
