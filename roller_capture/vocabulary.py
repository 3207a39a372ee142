"""The closed lists of words that code, schemas and documents share (design sections 5 to 8).

Every list is a `StrEnum`, so a member is its own JSON text. Add a word here, run `make schemas`, and say in
docs/protocol.md what it means; nothing else may spell one of these words by hand.
"""

from enum import StrEnum


class Protocol(StrEnum):
    """Wire format of a model call, told from the request endpoint alone."""

    ANTHROPIC_MESSAGES = "anthropic-messages"
    OPENAI_CHAT_COMPLETIONS = "openai-chat-completions"
    OPENAI_RESPONSES = "openai-responses"


class Purpose(StrEnum):
    """What a call was made for, by the harness's own mark or an exact native record, never by shape."""

    AGENT = "agent"
    TITLE = "title"
    COMPACTION = "compaction"
    SUMMARY = "summary"
    REVIEW = "review"
    UNKNOWN = "unknown"


class ExecutionStatus(StrEnum):
    """Did it finish? `unknown` is for participants and whole attempts; a call always has one of the first three."""

    COMPLETED = "completed"
    FAILED = "failed"
    INTERRUPTED = "interrupted"
    UNKNOWN = "unknown"


class ResponseCaptureStatus(StrEnum):
    """Was the response written to disk completely?"""

    COMPLETE = "complete"
    PARTIAL = "partial"
    MISSING = "missing"


class IdentityStatus(StrEnum):
    """Can the owning participant be determined?"""

    RESOLVED = "resolved"
    AMBIGUOUS = "ambiguous"
    UNATTRIBUTED = "unattributed"


class CaptureStatus(StrEnum):
    """Is the record complete?"""

    COMPLETE = "complete"
    PARTIAL = "partial"


class ExportStatus(StrEnum):
    """Can this call enter per-call export? `exportable` only with no blocker."""

    EXPORTABLE = "exportable"
    BLOCKED = "blocked"


class Blocker(StrEnum):
    """Why a call is not exportable."""

    OUTPUT_TRUNCATED = "output_truncated"
    CONTENT_FILTERED = "content_filtered"
    FINISH_UNKNOWN = "finish_unknown"
    TOOL_CALL_MISSING = "tool_call_missing"
    EXECUTION_NOT_COMPLETED = "execution_not_completed"
    RESPONSE_INCOMPLETE = "response_incomplete"
    CAPTURE_ERROR = "capture_error"
    REQUEST_INCOMPLETE = "request_incomplete"
    CONTEXT_NOT_JSON = "context_not_json"
    IDENTITY_UNRESOLVED = "identity_unresolved"
    MODEL_MISMATCH = "model_mismatch"
    MODEL_UNREPORTED = "model_unreported"


class HttpEnd(StrEnum):
    """How the HTTP exchange of a call ended, as the recorder saw it."""

    COMPLETE = "complete"  # the response message ended normally
    CUT_BY_CLIENT = "cut_by_client"
    CUT_BY_UPSTREAM = "cut_by_upstream"
    CUT = "cut"  # it broke, and nothing tells which side broke it
    PROXY_STOPPED = "proxy_stopped"  # the proxy was told to stop while the call was open
    PROXY_KILLED = "proxy_killed"  # no end record: the recorder died
    UNREACHABLE = "unreachable"  # refused, DNS, TLS: no response head ever came


class CutBy(StrEnum):
    """Which side broke a call."""

    CLIENT = "client"
    UPSTREAM = "upstream"
    PROXY = "proxy"


class CallErrorCode(StrEnum):
    """What went wrong with one call."""

    UPSTREAM_UNREACHABLE = "upstream_unreachable"
    HTTP_ERROR = "http_error"  # 4xx or 5xx
    PROVIDER_ERROR = "provider_error"  # error event, response.failed, error body with 200
    RESPONSE_CUT = "response_cut"  # the connection broke before the terminal marker
    TERMINAL_MARKER_MISSING = "terminal_marker_missing"  # the body ended cleanly, the protocol did not
    CONTENT_CODING_INCOMPLETE = "content_coding_incomplete"
    CONTENT_CODING_INVALID = "content_coding_invalid"
    CONTENT_CODING_UNKNOWN = "content_coding_unknown"
    RESPONSE_UNPARSEABLE = "response_unparseable"  # neither JSON nor an event stream, with 2xx
    STREAM_DAMAGED = "stream_damaged"  # an event of the stream is unreadable or missing, though its end is there
    DECODED_BODY_TOO_LARGE = "decoded_body_too_large"  # above 256 MiB
    REQUEST_CUT = "request_cut"  # the client left before it had sent the whole request
    DISK_ERROR = "disk_error"
    RECORDER_ERROR = "recorder_error"  # a fault of the recorder itself while this call passed
    BODY_FILE_MISSING = "body_file_missing"
    BODY_FILE_DAMAGED = "body_file_damaged"  # size differs from what the recorder wrote
    FOREIGN_CREDENTIAL = "foreign_credential"
    IDENTITY_CONFLICT = "identity_conflict"
    CONTEXT_TOO_DEEP = "context_too_deep"
    CREDENTIAL_MASKED = "credential_masked"  # an echoed credential was masked in the stored response
    IMPORT_CUT_SIDE_UNKNOWN = "import_cut_side_unknown"
    IMPORT_BYTES_UNPROVEN = "import_bytes_unproven"
    IMPORT_BODY_MISSING = "import_body_missing"
    IMPORT_CREDENTIALS_UNKNOWN = "import_credentials_unknown"
    IMPORT_ALTERED = "import_altered"


class AttemptErrorCode(StrEnum):
    """What is missing or wrong in the attempt as a whole; every one of them makes the capture partial."""

    UNRECOGNISED_MODEL_REQUEST = "unrecognised_model_request"
    WEBSOCKET_PASSED = "websocket_passed"
    RECORDER_ERROR = "recorder_error"
    RECORDER_NOT_CLOSED = "recorder_not_closed"
    EVENTS_MISSING = "events_missing"
    EVENT_UNREADABLE = "event_unreadable"  # torn or damaged line of events.jsonl
    BODY_WITHOUT_EVENT = "body_without_event"  # a recorded body that no readable event names
    ATTEMPT_FILE_UNREADABLE = "attempt_file_unreadable"
    NATIVE_LOGS_MISSING = "native_logs_missing"
    NATIVE_LOG_UNREADABLE = "native_log_unreadable"
    NATIVE_LINE_UNREADABLE = "native_line_unreadable"
    NATIVE_SHAPE_UNKNOWN = "native_shape_unknown"
    NATIVE_ID_NOT_UNIQUE = "native_id_not_unique"
    NATIVE_VERSION_UNTESTED = "native_version_untested"
    NATIVE_RELATION_UNPROVEN = "native_relation_unproven"
    PARTICIPANT_LOG_MISSING = "participant_log_missing"
    ROOT_AMBIGUOUS = "root_ambiguous"
    HOOK_NOT_SEEN = "hook_not_seen"
    DRAIN_FAILED = "drain_failed"
    NO_REQUEST_SEEN = "no_request_seen"
    ADAPTER_FAILED = "adapter_failed"
    FILE_REFUSED = "file_refused"  # a link, a device, a path that leaves the folder
    # What the file of another recorder does not prove (docs/import.md).
    IMPORT_CALLS_UNPROVEN = "import_calls_unproven"  # that every request is in it
    IMPORT_TIMING_UNKNOWN = "import_timing_unknown"  # when the pieces of responses came, and how many
    IMPORT_SOURCE_DAMAGED = "import_source_damaged"  # a record of it that cannot be read
    IMPORT_CUT_SIDE_UNKNOWN = "import_cut_side_unknown"
    IMPORT_BYTES_UNPROVEN = "import_bytes_unproven"  # bodies are texts there, not the bytes of the wire
    IMPORT_BODY_MISSING = "import_body_missing"
    IMPORT_CREDENTIALS_UNKNOWN = "import_credentials_unknown"  # no key to look for in what answers echo
    IMPORT_ALTERED = "import_altered"  # edited or replayed before it was saved


class StatusReason(StrEnum):
    """Why `capture_status` of the whole is `partial`."""

    CALL_INCOMPLETE = "call_incomplete"
    IDENTITY_AMBIGUOUS = "identity_ambiguous"
    IDENTITY_UNATTRIBUTED = "identity_unattributed"
    COVERAGE_INCOMPLETE = "coverage_incomplete"
    COVERAGE_UNKNOWN = "coverage_unknown"
    LIFECYCLE_PENDING = "lifecycle_pending"
    LIFECYCLE_UNKNOWN = "lifecycle_unknown"
    RECORDER_NOT_CLOSED = "recorder_not_closed"
    ERRORS = "errors"


class EvidenceKind(StrEnum):
    """What sort of thing proves an identity or a relation."""

    RESPONSE_ID = "response_id"  # provider response id found in a native log
    NATIVE_HEADER = "native_header"  # an id the harness itself sent in a request header
    ROLLER_HEADER = "roller_header"  # an id our hook sent in an x-roller-* header
    HEADER_ABSENT = "header_absent"  # an id that the harness is proven to send, not sent
    NATIVE_RECORD = "native_record"  # one line, row or event of a native log
    NATIVE_METADATA = "native_metadata"  # a native metadata file or row about a participant
    TOOL_CALL_ID = "tool_call_id"  # a delegation's tool id in a provider response
    REQUEST_CONTEXT = "request_context"  # an item found in a request body
    LAUNCHER = "launcher"  # what the launcher noted about the run it started


class RelationType(StrEnum):
    """The seven relations of the protocol (section "Relation semantics")."""

    SPAWN = "spawn"
    RESULT_DELIVERED = "result_delivered"
    CHILD_COMPLETED = "child_completed"
    CHILD_FAILED = "child_failed"
    RESULT_IN_CONTEXT = "result_in_context"
    LAUNCH_ACKNOWLEDGED = "launch_acknowledged"
    LAUNCH_ACK_IN_CONTEXT = "launch_ack_in_context"


class DeliveryKind(StrEnum):
    """What carried a result to its receiver."""

    TOOL_RESULT = "tool_result"
    NOTIFICATION = "notification"
    MESSAGE = "message"


class BoundBy(StrEnum):
    """The id that ties a delivery to its delegation."""

    TOOL_CALL_ID = "tool_call_id"
    ANNOUNCEMENT_RUN_ID = "announcement_run_id"
    RESPONSE_ID = "response_id"
    MESSAGE_ID = "message_id"
    ITEM_ID = "item_id"
    DELEGATION_ID = "delegation_id"
    LOG_SEQ = "log_seq"


class Role(StrEnum):
    """Root or child; consumers read this and never the id."""

    ROOT = "root"
    CHILD = "child"


class ParentCallStatus(StrEnum):
    """Could the call whose output made the delegation be found, and only one?"""

    RESOLVED = "resolved"
    UNKNOWN = "unknown"


class LifecycleStatus(StrEnum):
    """Have all subtasks ended and been delivered (design section 8)?"""

    COMPLETE = "complete"
    PENDING = "pending"
    UNKNOWN = "unknown"
    UNSUPPORTED = "unsupported"


class CoverageStrength(StrEnum):
    """How exactly native outputs can be compared with the calls."""

    PER_ID = "per_id"
    COUNT = "count"
    NONE = "none"


class CoverageStatus(StrEnum):
    """Does every native output have its call?"""

    COMPLETE = "complete"
    INCOMPLETE = "incomplete"
    UNKNOWN = "unknown"
    NOT_APPLICABLE = "not_applicable"


class SubtaskSupport(StrEnum):
    """Can the harness, as it was run, delegate at all?"""

    SUPPORTED = "supported"
    NOT_AVAILABLE = "not_available_in_bundled_profile"
    UNKNOWN = "unknown"


class DebugRetention(StrEnum):
    """When `raw/` is kept."""

    ON_ERROR = "on-error"
    FULL = "full"
    OFF = "off"


class RawEncoding(StrEnum):
    """How a request body that is no JSON is kept."""

    UTF8 = "utf-8"
    BASE64 = "base64"


class ModelMatch(StrEnum):
    """The rule by which the responded model was taken to be the requested one."""

    EQUAL = "equal"
    DATE_SUFFIX = "date_suffix"
    PROVIDER_PREFIX = "provider_prefix"
    CONTEXT_SUFFIX = "context_suffix"  # a trailing [1m]
    ALIAS = "alias"
    MISMATCH = "mismatch"
    UNREPORTED = "unreported"
    UNREQUESTED = "unrequested"  # the request named no model


class OutputWarningCode(StrEnum):
    """An oddity of the response; nothing was lost, but a reader should know."""

    DELTA_FINAL_MISMATCH = "delta_final_mismatch"
    SECOND_FINISH_REASON = "second_finish_reason"
    SECOND_START = "second_start"
    UNKNOWN_EVENT = "unknown_event"
    UNKNOWN_DELTA = "unknown_delta"
    UNKNOWN_FIELD_CONFLICT = "unknown_field_conflict"
    MALFORMED_EVENT = "malformed_event"
    EVENT_OUT_OF_ORDER = "event_out_of_order"
    EVENT_AFTER_TERMINAL = "event_after_terminal"
    TOOL_INPUT_INCOMPLETE = "tool_input_incomplete"
    TOOL_INPUT_NOT_JSON = "tool_input_not_json"
    RESPONSE_ID_CHANGED = "response_id_changed"
    TERMINAL_OUTPUT_REBUILT = "terminal_output_rebuilt"  # a terminal event without the items that were streamed
    BLOCK_UNFINISHED = "block_unfinished"
    TEXT_NOT_UTF8 = "text_not_utf8"
    TRAILING_BYTES = "trailing_bytes"
    UNEXPECTED_SHAPE = "unexpected_shape"


class OtherRequestKind(StrEnum):
    """Traffic that is no model call."""

    COUNT_TOKENS = "count_tokens"
    MODEL_LIST = "model_list"
    PROBE = "probe"  # HEAD, OPTIONS and reachability checks
    EMBEDDINGS = "embeddings"
    WEBSOCKET_REFUSED = "websocket_refused"
    OTHER = "other"
