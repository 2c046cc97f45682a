"""Mail: a webmail with a forum."""
