"""The collector over HTTP: what it takes, what it answers, who may, and how it is itself."""
