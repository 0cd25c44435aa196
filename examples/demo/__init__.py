"""The demo: one machine plays a cluster, a small model is really trained on it, and is really disturbed."""
