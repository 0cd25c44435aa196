"""Where incidents go: Grafana's annotations, webhooks, Slack, Alertmanager; each sink by itself, over one outbox."""
