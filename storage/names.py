"""Every key in Redis. docs/storage.md says what each holds; the Lua scripts build the same names."""

FORMAT = "gradebox:format"
PROJECTS = "gradebox:projects"
API_KEYS = "gradebox:api-keys"
TURNS = "gradebox:turns"
WAITING = "gradebox:waiting"
ACTIVE = "gradebox:active"
ENDED = "gradebox:ended"
LEASES = "gradebox:leases"
GARBAGE = "gradebox:garbage"
UPLOADS = "gradebox:uploads"
UNTIDY = "gradebox:untidy"
UNFROZEN = "gradebox:unfrozen"
FROZEN = "gradebox:frozen"
STORED = "gradebox:stored"
JANITOR = "gradebox:janitor"
ORPHANS = "gradebox:orphans"
SPOOL = "gradebox:spool"
SOURCES = "gradebox:sources"
HOLDS = "gradebox:holds"
OPEN = "gradebox:open"
PROCESSES = "gradebox:processes"
BUILDS = "gradebox:builds"
BUILD_TRIES = "gradebox:build-tries"
ARCHIVES = "gradebox:archives"
CONDEMNED_ARCHIVES = "gradebox:condemned-archives"
ARCHIVES_LOOK = "gradebox:archives-look"
BUDGETS = "gradebox:budgets"
ENDINGS = "gradebox:endings"
"""The channel on which the id of each batch that ends is told, and `project/key` of each environment that changes."""


def graders(project: str) -> str:
    """The set of a project's grader keys."""
    return f"gradebox:graders:{project}"


def grader(project: str, key: str) -> str:
    """One grader, as JSON."""
    return f"gradebox:grader:{project}:{key}"


def versions(project: str, key: str) -> str:
    """The versions of a grader: number to JSON."""
    return f"gradebox:versions:{project}:{key}"


def proof_threads(project: str) -> str:
    """The threads that each grader of a project was proved on, packed."""
    return f"gradebox:proof-threads:{project}"


def numbers(project: str) -> str:
    """The last version number of each key that a project ever used."""
    return f"gradebox:numbers:{project}"


def audit(project: str) -> str:
    """The stream of a project's changes; "*" has those of keys and projects."""
    return f"gradebox:audit:{project}"


def audit_of_batches(project: str) -> str:
    """The stream of what was done with a project's batches: there are many, and they push nothing else out."""
    return f"gradebox:audit:{project}:batches"


def version_bytes(project: str) -> str:
    """How many bytes the versions of each grader take."""
    return f"gradebox:version-bytes:{project}"


def answers(project: str) -> str:
    """The digests of the requests whose answers a project keeps, the oldest first."""
    return f"gradebox:answers:{project}"


def answer(digest: str) -> str:
    """What was answered to one request with an Idempotency-Key."""
    return f"gradebox:answer:{digest}"


def batches(project: str) -> str:
    """The batches of a project, by their ids, which begin with the time."""
    return f"gradebox:batches:{project}"


def batch(batch_id: str) -> str:
    """The state and counts of one batch."""
    return f"gradebox:batch:{batch_id}"


def chunks(batch_id: str) -> str:
    """The chunk table of one batch, packed."""
    return f"gradebox:batch:{batch_id}:chunks"


def done(batch_id: str) -> str:
    """The attempt that counts of each unit, packed; 0 where none does yet."""
    return f"gradebox:batch:{batch_id}:done"


def underway(batch_id: str) -> str:
    """How many outcomes there are of units that are not done: unit to count."""
    return f"gradebox:batch:{batch_id}:underway"


def tallies(batch_id: str, grader_number: int) -> str:
    """What the units of one grader of a batch come to, packed; the first are merged into one."""
    return f"gradebox:batch:{batch_id}:tallies:{grader_number}"


def attempts(batch_id: str) -> str:
    """How often units were lent that are not done, or are scored again: unit to count."""
    return f"gradebox:batch:{batch_id}:attempts"


def parts(batch_id: str) -> str:
    """The outcomes that are kept of units that are not done: unit to `attempt:count`."""
    return f"gradebox:batch:{batch_id}:parts"


def returned(batch_id: str) -> str:
    """The units of one batch that were given back."""
    return f"gradebox:batch:{batch_id}:returned"


def turns(lane: str) -> str:
    """The projects that have units in a lane which no worker has taken."""
    return f"{TURNS}-{lane}" if lane else TURNS


def rewards(project: str, key: str) -> str:
    """What a grader gave in its last finished batches, as `version:scored:mean:m2`."""
    return f"gradebox:rewards:{project}:{key}"


def environments(project: str) -> str:
    """The environments of a project: key to JSON."""
    return f"gradebox:environments:{project}"


def builds(project: str, key: str) -> str:
    """The builds of an environment: number to JSON."""
    return f"gradebox:environment-builds:{project}:{key}"


def environment_data(project: str) -> str:
    """The data of a project that lies beside packages: SHA-256 to its place in the spool, as JSON."""
    return f"gradebox:environment-data:{project}"


def deleted_builds(project: str) -> str:
    """Builds whose contents may still be in the spool, by when their environment was deleted."""
    return f"gradebox:environment-deleted:{project}"


def build_numbers(project: str) -> str:
    """The last build number of each environment that was deleted; under the empty key, the highest of earlier ones."""
    return f"gradebox:environment-numbers:{project}"


def environment_uses(project: str) -> str:
    """The set of `environment/grader`: which graders have a version that names which environment."""
    return f"gradebox:environment-uses:{project}"


def models(project: str) -> str:
    """The models of a project: key to JSON, API keys encrypted."""
    return f"gradebox:models:{project}"


def spent(project: str, period: str = "") -> str:
    """What a project's asks cost, in all or in a day or month."""
    return f"gradebox:spent:{project}:{period}" if period else f"gradebox:spent:{project}"


def spent_by_batch(batch_id: str) -> str:
    """What a batch's asks cost."""
    return f"gradebox:spent-batch:{batch_id}"


def intervals(batch_id: str) -> str:
    """The confidence intervals by bootstrap of one batch, packed."""
    return f"gradebox:intervals:{batch_id}"


def recorded(batch_id: str) -> str:
    """What was recorded of a batch from outside: of each grader, by its label, its file and tally; and their bytes."""
    return f"gradebox:recorded:{batch_id}"


def kept_replies(project: str) -> str:
    """The replies that a project keeps: digest to time and reply, packed; and how many bytes they take."""
    return f"gradebox:kept-replies:{project}"


def kept_order(project: str) -> str:
    """The digests of a project's kept replies, the oldest first."""
    return f"gradebox:kept-order:{project}"


def limits(project: str, asked: str) -> str:
    """Who asks a model or endpoint, and what may be asked of it."""
    return f"gradebox:limits:{project}:{asked}"


def endpoints(project: str) -> str:
    """The endpoints of a project: key to JSON, API keys encrypted."""
    return f"gradebox:endpoints:{project}"
