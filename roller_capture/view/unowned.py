"""Why a call belongs to no agent, in plain words."""

from roller_capture.view.attempt import Call
from roller_capture.view.family import Family
from roller_capture.view.words import LONGEST_TEXT, cut, listing
from roller_capture.vocabulary import IdentityStatus


def why_unowned(call: Call, family: Family) -> str:
    """What its evidence says, or fails to say."""
    record = call.record
    if record["identity_status"] == IdentityStatus.RESOLVED:
        return f"its owner {cut(str(record['participant_id']))} is not in the manifest"
    if record["identity_status"] == IdentityStatus.AMBIGUOUS:
        candidates = [family.name(item) for item in record["identity_candidates"]]
        return f"ambiguous, evidence names {listing(candidates)}"
    evidence = record["native_identity"]["evidence"]
    if not evidence:
        return "unattributed, it carries no id that names an agent"
    unknown = [f"{item['name']} {item['value']}" for item in evidence if item["source"] is None and item["value"]]
    if len(unknown) == len(evidence):
        return f"unattributed, no native log knows {listing([cut(item, LONGEST_TEXT) for item in unknown], 3)}"
    return f"unattributed, what it carries proves no single agent: {listing([item['name'] for item in evidence])}"
