"""`export otel`: agents, model calls and tool calls as OpenTelemetry spans (docs/export.md).

GenAI semantic conventions: https://github.com/open-telemetry/semantic-conventions-genai (all of them in development).
"""
