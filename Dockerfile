# Collector, agent and everything that the commands need, as a user without rights.
#
# docker build --tag tachograph:0.1.0 .
FROM python:3.12.12-slim-bookworm AS build
WORKDIR /source
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY agent agent
COPY collector collector
COPY migrations migrations
COPY dashboards dashboards
COPY docs/runbooks docs/runbooks
RUN python -m venv /opt/tachograph \
    && /opt/tachograph/bin/pip install --no-cache-dir --constraint constraints.txt '.[collector]' \
    && find /opt/tachograph -name __pycache__ -prune -exec rm -rf {} +

FROM python:3.12.12-slim-bookworm
LABEL org.opencontainers.image.title="Tachograph" \
      org.opencontainers.image.description="Where your training cluster's time goes, minute by minute" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="0.1.0"
COPY --from=build /opt/tachograph /opt/tachograph
ENV PATH=/opt/tachograph/bin:$PATH PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1 XDG_STATE_HOME=/var/lib
# The agent's manifests name this user, too (deploy/kubernetes). A volume that is new takes over whose its directory is.
RUN install -d -o 64900 -g 64900 /var/lib/tachograph
USER 64900:64900
VOLUME /var/lib/tachograph
EXPOSE 8420
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8420/healthz', timeout=4)"]
CMD ["tachograph", "collector", "--host", "0.0.0.0"]
