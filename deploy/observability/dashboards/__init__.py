"""The four dashboards. ``python -m deploy.observability`` writes them as JSON."""

from deploy.observability.dashboards import kafka_storage, overview, pipeline, provider

DASHBOARDS = (
    overview.DASHBOARD,
    pipeline.DASHBOARD,
    kafka_storage.DASHBOARD,
    provider.DASHBOARD,
)
