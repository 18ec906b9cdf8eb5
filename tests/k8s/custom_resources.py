"""JSON Schemas of the custom resources that we use, for the fields that we use: their own are not
among Kubernetes' schemas, so a validator lets any spelling of a field pass."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string", "minLength": 1}
NUMBER: Schema = {"type": "integer", "minimum": 0}


def _object(required: dict[str, Schema], optional: dict[str, Schema] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": {**required, **(optional or {})},
        "required": list(required),
        "additionalProperties": False,
    }


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item, "minItems": 1}


def _map(value: Schema) -> Schema:
    return {"type": "object", "additionalProperties": value}


def _resource(version: str, kind: str, spec: Schema) -> Schema:
    metadata = _object({"name": TEXT}, {"namespace": TEXT, "labels": _map(TEXT)})
    return _object(
        {
            "apiVersion": {"const": version},
            "kind": {"const": kind},
            "metadata": metadata,
            "spec": spec,
        }
    )


_SCALE_DOWN = _object(
    {
        "stabilizationWindowSeconds": NUMBER,
        "policies": _list(
            _object(
                {"type": {"enum": ["Pods", "Percent"]}, "value": NUMBER, "periodSeconds": NUMBER}
            )
        ),
    }
)

_FLAG: Schema = {"enum": ["true", "false"]}

_KAFKA_METADATA = _object(
    {"bootstrapServers": TEXT, "consumerGroup": TEXT, "topic": TEXT, "lagThreshold": TEXT},
    {
        "activationLagThreshold": TEXT,
        "offsetResetPolicy": {"enum": ["earliest", "latest"]},
        "allowIdleConsumers": _FLAG,
        "limitToPartitionsWithLag": _FLAG,
        "excludePersistentLag": _FLAG,
        "scaleToZeroOnInvalidOffset": _FLAG,
        "sasl": {"enum": ["none", "plaintext", "scram_sha256", "scram_sha512", "oauthbearer"]},
        "tls": {"enum": ["enable", "disable"]},
    },
)

SCHEMAS: dict[str, Schema] = {
    "ScaledObject": _resource(
        "keda.sh/v1alpha1",
        "ScaledObject",
        _object(
            {
                "scaleTargetRef": _object({"name": TEXT}),
                "minReplicaCount": NUMBER,
                "maxReplicaCount": NUMBER,
                "triggers": _list(
                    _object(
                        {"type": {"const": "kafka"}, "metadata": _KAFKA_METADATA},
                        {"authenticationRef": _object({"name": TEXT})},
                    )
                ),
            },
            {
                "pollingInterval": NUMBER,
                "fallback": _object(
                    {"failureThreshold": NUMBER, "replicas": NUMBER},
                    {
                        "behavior": {
                            "enum": [
                                "static",
                                "currentReplicas",
                                "currentReplicasIfHigher",
                                "currentReplicasIfLower",
                            ]
                        }
                    },
                ),
                "advanced": _object(
                    {
                        "horizontalPodAutoscalerConfig": _object(
                            {"behavior": _object({"scaleDown": _SCALE_DOWN})}
                        )
                    }
                ),
            },
        ),
    ),
    "TriggerAuthentication": _resource(
        "keda.sh/v1alpha1",
        "TriggerAuthentication",
        _object(
            {
                "secretTargetRef": _list(
                    _object(
                        {
                            "parameter": {"enum": ["sasl", "username", "password", "tls", "ca"]},
                            "name": TEXT,
                            "key": TEXT,
                        }
                    )
                )
            }
        ),
    ),
    "PodMonitor": _resource(
        "monitoring.coreos.com/v1",
        "PodMonitor",
        _object(
            {
                "selector": _object({"matchLabels": _map(TEXT)}),
                "podMetricsEndpoints": _list(
                    _object({"port": TEXT}, {"path": TEXT, "interval": TEXT, "scrapeTimeout": TEXT})
                ),
            },
            {"jobLabel": TEXT},
        ),
    ),
    "PrometheusRule": _resource(
        "monitoring.coreos.com/v1",
        "PrometheusRule",
        _object(
            {
                "groups": _list(
                    _object(
                        {
                            "name": TEXT,
                            "rules": _list(
                                {
                                    "oneOf": [
                                        _object(
                                            {"record": TEXT, "expr": TEXT}, {"labels": _map(TEXT)}
                                        ),
                                        _object(
                                            {"alert": TEXT, "expr": TEXT},
                                            {
                                                "for": TEXT,
                                                "keep_firing_for": TEXT,
                                                "labels": _map(TEXT),
                                                "annotations": _map(TEXT),
                                            },
                                        ),
                                    ]
                                }
                            ),
                        },
                        {"interval": TEXT},
                    )
                )
            }
        ),
    ),
}
