"""The names of all keys in Redis, and what each holds. The Lua scripts build the same names, and these:

`counted:{process}`, for a day: the asks of its last round trip, so that a repeated one counts nothing;
`batch:{id}:untried`: leases of a unit without a try; `:before`: results before a retry; `:left`: leases that a
cancelled retry ended.
"""

FORMAT = "gradebox:format"
"""The version of this layout."""
PROJECTS = "gradebox:projects"
"""Key to project."""
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
ARCHIVES_LOOK = "gradebox:archives-look"
"""Whether contents were checked lately."""
BUDGETS = "gradebox:budgets"
"""Project to the budget of its asks."""
ENDINGS = "gradebox:endings"
"""The channel that receives the id of each batch that ends, and `project/key` of each environment that changes."""


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
    """The threads that each grader of a project was checked on, packed."""
    return f"gradebox:proof-threads:{project}"


def numbers(project: str) -> str:
    """The last version number of each key that a project has ever used."""
    return f"gradebox:numbers:{project}"


def audit(project: str) -> str:
    """The stream of a project's changes; "*" is the stream of changes of keys and projects."""
    return f"gradebox:audit:{project}"


def audit_of_batches(project: str) -> str:
    """The stream of changes of a project's batches. It is separate, because there are many, which would push out the
    others.
    """
    return f"gradebox:audit:{project}:batches"


def version_bytes(project: str) -> str:
    """The number of bytes that the versions of each grader take."""
    return f"gradebox:version-bytes:{project}"


def answers(project: str) -> str:
    """The digests of the requests whose answers are stored for a project, oldest first."""
    return f"gradebox:answers:{project}"


def answer(digest: str) -> str:
    """The answer to one request with an Idempotency-Key."""
    return f"gradebox:answer:{digest}"


def batches(project: str) -> str:
    """The batches of a project, sorted by their ids, which begin with the time."""
    return f"gradebox:batches:{project}"


def batch(batch_id: str) -> str:
    """The state and counts of one batch."""
    return f"gradebox:batch:{batch_id}"


def chunks(batch_id: str) -> str:
    """The chunk table of one batch, packed."""
    return f"gradebox:batch:{batch_id}:chunks"


def done(batch_id: str) -> str:
    """The attempt that counts of each unit, packed; 0 if none does yet."""
    return f"gradebox:batch:{batch_id}:done"


def underway(batch_id: str) -> str:
    """The number of outcomes of each unit that is not done: unit to count."""
    return f"gradebox:batch:{batch_id}:underway"


def tallies(batch_id: str, grader_number: int) -> str:
    """The tallies of one grader's units in a batch, packed; the first ones are merged into one."""
    return f"gradebox:batch:{batch_id}:tallies:{grader_number}"


def attempts(batch_id: str) -> str:
    """How often each unit was leased that is not done or is scored again: unit to count."""
    return f"gradebox:batch:{batch_id}:attempts"


def parts(batch_id: str) -> str:
    """The stored outcomes of units that are not done: unit to `attempt:count`."""
    return f"gradebox:batch:{batch_id}:parts"


def returned(batch_id: str) -> str:
    """The units of one batch that were given back."""
    return f"gradebox:batch:{batch_id}:returned"


def turns(lane: str) -> str:
    """The projects that have unleased units in a lane."""
    return f"{TURNS}-{lane}" if lane else TURNS


def rewards(project: str, key: str) -> str:
    """The results of a grader in its last finished batches, as `version:scored:mean:m2`."""
    return f"gradebox:rewards:{project}:{key}"


def environments(project: str) -> str:
    """The environments of a project: key to JSON."""
    return f"gradebox:environments:{project}"


def builds(project: str, key: str) -> str:
    """The builds of an environment: number to JSON."""
    return f"gradebox:environment-builds:{project}:{key}"


def environment_data(project: str) -> str:
    """The data of a project that is provided beside packages: SHA-256 to its place in the spool, as JSON."""
    return f"gradebox:environment-data:{project}"


def deleted_builds(project: str) -> str:
    """Builds whose contents may still be in the spool, by the time of their environment's deletion."""
    return f"gradebox:environment-deleted:{project}"


def build_numbers(project: str) -> str:
    """The last build number of each deleted environment; under the empty key, the highest of those no longer stored."""
    return f"gradebox:environment-numbers:{project}"


def environment_uses(project: str) -> str:
    """A set of `environment/grader`: the graders that have a version that names the environment."""
    return f"gradebox:environment-uses:{project}"


def models(project: str) -> str:
    """The models of a project: key to JSON, API keys encrypted."""
    return f"gradebox:models:{project}"


def spent(project: str, period: str = "") -> str:
    """The costs of a project's asks, in all or in a day or month."""
    return f"gradebox:spent:{project}:{period}" if period else f"gradebox:spent:{project}"


def spent_by_batch(batch_id: str) -> str:
    """The costs of a batch's asks."""
    return f"gradebox:spent-batch:{batch_id}"


def intervals(batch_id: str) -> str:
    """The bootstrap confidence intervals of one batch, packed."""
    return f"gradebox:intervals:{batch_id}"


def recorded(batch_id: str) -> str:
    """The scores recorded for a batch from outside: label of a grader to its file and tally; and the bytes of all
    files.
    """
    return f"gradebox:recorded:{batch_id}"


def session(digest: str) -> str:
    """The id of the API key that a browser is signed in with."""
    return f"gradebox:session:{digest}"


def sign_in(digest: str) -> str:
    """The id of the API key that a link signs in with, once."""
    return f"gradebox:sign-in:{digest}"


def sessions(key_id: str) -> str:
    """The names of the newest sessions of an API key, oldest first."""
    return f"gradebox:sessions:{key_id}"


def sign_ins(key_id: str) -> str:
    """The names of the newest links of an API key, oldest first."""
    return f"gradebox:sign-ins:{key_id}"


def kept_replies(project: str) -> str:
    """The stored replies of a project: digest to time and reply, packed; and the bytes that they take."""
    return f"gradebox:kept-replies:{project}"


def kept_order(project: str) -> str:
    """The digests of a project's stored replies, oldest first."""
    return f"gradebox:kept-order:{project}"


def limits(project: str, asked: str, account: int) -> str:
    """The processes that ask a model or endpoint, and how much may be asked of it while it has this account."""
    return f"gradebox:limits:{project}:{asked}:{account}"


def endpoints(project: str) -> str:
    """The endpoints of a project: key to JSON, API keys encrypted."""
    return f"gradebox:endpoints:{project}"
