"""The names of all keys in Redis, and what each holds. The Lua scripts build the same names, and these:

`counted:{process}`, for a day: the asks of its last round trip, so that a repeated one counts nothing;
`batch:{id}:untried`: leases of a unit without a try; `:before`: results before a retry; `:left`: leases that a
cancelled retry ended.
"""

from collections.abc import Callable

FORMAT = "gradebox:format"
"""The version of this layout."""
PROJECTS = "gradebox:projects"
"""Key to project, with its own limits."""
API_KEYS = "gradebox:api-keys"
"""Id to name, projects, role, revoked and SHA-256 of the key. Of revoked keys, the newest thousand."""
TURNS = "gradebox:turns"
"""The projects with units to lend, and `turns:{project}` their batches; with `-asking`, those of asking workers."""
WAITING = "gradebox:waiting"
"""Completions without an outcome, by project."""
ACTIVE = "gradebox:active"
"""Batches that are not over, by project."""
ENDED = "gradebox:ended"
"""The stream of batches that are over and not kept."""
LEASES = "gradebox:leases"
"""`batch:unit:attempt` by the end of its lease."""
BEATEN = "gradebox:beaten"
"""When a worker last extended its leases."""
GARBAGE = "gradebox:garbage"
"""Ids whose files are to be removed, by when."""
UPLOADS = "gradebox:uploads"
"""Running uploads, by when they count as broken off."""
UNTIDY = "gradebox:untidy"
"""Batches whose spool may hold unused files."""
UNFROZEN = "gradebox:unfrozen"
"""Batches that are over and to be frozen."""
FROZEN = "gradebox:frozen"
"""Id of a batch that is over to project, bytes, entry in `ended`, summaries, and chunk table if short."""
STORED = "gradebox:stored"
"""Bytes in the spool, by project."""
JANITOR = "gradebox:janitor"
"""The process that tidies up."""
ORPHANS = "gradebox:orphans"
"""Whether it looked for orphans lately."""
SPOOL = "gradebox:spool"
"""The spool's mark."""
SPOOL_MARKED = "gradebox:spool-marked"
"""Whether the mark was written."""
SOURCES = "gradebox:sources"
"""What running batches score with, also if a grader is deleted."""
HOLDS = "gradebox:holds"
"""How many batches hold each source."""
OPEN = "gradebox:open"
"""Batches that are not over."""
PROCESSES = "gradebox:processes"
"""When each process last reported, and what keeps it from its work."""
BUILDS = "gradebox:builds"
"""Builds to make, by the end of their worker's lease."""
BUILD_TRIES = "gradebox:build-tries"
"""How often each build was started."""
ARCHIVES = "gradebox:archives"
"""Contents of environments in the spool, by last use."""
CONDEMNED_ARCHIVES = "gradebox:condemned-archives"
"""Contents that are being removed."""
DAMAGED_ARCHIVES = "gradebox:damaged-archives"
"""Contents whose archives a process found changed or cut off."""
ARCHIVES_LOOK = "gradebox:archives-look"
"""Whether contents were checked lately."""
BUDGETS = "gradebox:budgets"
"""Project to the budget of its asks."""
ENDINGS = "gradebox:endings"
"""The channel that receives the id of each batch that ends, and `project/key` of each environment that changes."""


def _of(kind: str) -> Callable[[str], str]:
    return lambda owner: f"gradebox:{kind}:{owner}"


def _of_item(kind: str) -> Callable[[str, str], str]:
    return lambda project, key: f"gradebox:{kind}:{project}:{key}"


def _of_batch(part: str) -> Callable[[str], str]:
    return lambda batch_id: f"gradebox:batch:{batch_id}:{part}"


# By project.
graders = _of("graders")
"""The set of a project's grader keys."""
proof_threads = _of("proof-threads")
"""The threads that each grader of a project was checked on, packed."""
numbers = _of("numbers")
"""The last version number of each key that a project has ever used."""
audit = _of("audit")
"""The stream of a project's changes; "*" is the stream of changes of keys and projects."""
version_bytes = _of("version-bytes")
"""The number of bytes that the versions of each grader take."""
answers = _of("answers")
"""The digests of the requests whose answers are stored for a project, oldest first."""
batches = _of("batches")
"""The batches of a project, sorted by their ids, which begin with the time."""
environments = _of("environments")
"""The environments of a project: key to JSON."""
environment_data = _of("environment-data")
"""The data of a project that is provided beside packages: SHA-256 to its place in the spool, as JSON."""
deleted_builds = _of("environment-deleted")
"""Builds whose contents may still be in the spool, by the time of their environment's deletion."""
build_numbers = _of("environment-numbers")
"""The last build number of each deleted environment; under the empty key, the highest of those no longer stored."""
environment_uses = _of("environment-uses")
"""A set of `environment/grader`: the graders that have a version that names the environment."""
models = _of("models")
"""The models of a project: key to JSON, API keys encrypted."""
kept_replies = _of("kept-replies")
"""The stored replies of a project: digest to time and reply, packed; and the bytes that they take."""
kept_order = _of("kept-order")
"""The digests of a project's stored replies, oldest first."""
endpoints = _of("endpoints")
"""The endpoints of a project: key to JSON, API keys encrypted."""

# By project and key.
grader = _of_item("grader")
"""One grader, as JSON."""
versions = _of_item("versions")
"""The versions of a grader: number to JSON."""
rewards = _of_item("rewards")
"""The results of a grader in its last finished batches, as `version:scored:mean:m2`."""
builds = _of_item("environment-builds")
"""The builds of an environment: number to JSON."""

# By the id of a batch.
batch = _of("batch")
"""The state and counts of one batch."""
chunks = _of_batch("chunks")
"""The chunk table of one batch, packed."""
done = _of_batch("done")
"""The attempt that counts of each unit, packed; 0 if none does yet."""
underway = _of_batch("underway")
"""The number of outcomes of each unit that is not done: unit to count."""
attempts = _of_batch("attempts")
"""How often each unit was leased that is not done or is scored again: unit to count."""
parts = _of_batch("parts")
"""The stored outcomes of units that are not done: unit to `attempt:count`."""
returned = _of_batch("returned")
"""The units of one batch that were given back."""
spent_by_batch = _of("spent-batch")
"""The costs of a batch's asks."""
combined = _of("combined")
"""The summary of the combined outcomes of one batch, after the digest of what it was computed from."""
intervals = _of("intervals")
"""The bootstrap confidence intervals of one batch, in the same form."""
recorded = _of("recorded")
"""The scores recorded for a batch from outside: label of a grader to its file and tally; and the bytes of all
files."""

# By a digest, or by the id of an API key.
answer = _of("answer")
"""The answer to one request with an Idempotency-Key."""
session = _of("session")
"""The id of the API key that a browser is signed in with."""
sign_in = _of("sign-in")
"""The id of the API key that a link signs in with, once."""
sessions = _of("sessions")
"""The names of the newest sessions of an API key, oldest first."""
sign_ins = _of("sign-ins")
"""The names of the newest links of an API key, oldest first."""


def audit_of_batches(project: str) -> str:
    """The stream of changes of a project's batches. It is separate, because there are many, which would push out the
    others.
    """
    return f"gradebox:audit:{project}:batches"


def tallies(batch_id: str, grader_number: int) -> str:
    """The tallies of one grader's units in a batch, packed; the first ones are merged into one."""
    return f"gradebox:batch:{batch_id}:tallies:{grader_number}"


def turns(lane: str) -> str:
    """The projects that have unleased units in a lane."""
    return f"{TURNS}-{lane}" if lane else TURNS


def spent(project: str, period: str = "") -> str:
    """The costs of a project's asks, in all or in a day or month."""
    return f"gradebox:spent:{project}:{period}" if period else f"gradebox:spent:{project}"


def limits(project: str, asked: str, account: int) -> str:
    """The processes that ask a model or endpoint, and how much may be asked of it while it has this account."""
    return f"gradebox:limits:{project}:{asked}:{account}"
