"""Texts of the workbench and the release explorer that Python code or several templates use.

Texts of one page are in its template. Messages of errors that lower layers raise (an invalid name,
clause or tree operation) are defined where they are raised.
"""

# --- security -------------------------------------------------------------------------------------

TOO_SLOW = (
    "the answer would take more than {seconds} seconds, so the query was canceled; ask for fewer "
    "groups or conditions, or use hushtable query, which has no time limit."
)
BUSY = "other queries are running; ask again in a moment."
WORKER_ENDED = "the query needed too much memory, or the page is being closed; ask for less."
INTERNAL_ERROR = (
    "Internal error ({kind}). The error message is not shown because it may contain private values."
)
FOREIGN_HOST = (
    "The workbench does not accept requests under this host name. Open the address that the "
    "terminal printed."
)
UNKNOWN_NAME = (
    "This server does not accept requests under this host name. Open the address that the terminal "
    "printed; behind a reverse proxy, start the server with --name NAME, where NAME is the host "
    "name that visitors use."
)
METHOD_NOT_ALLOWED = "This page does not allow this request method."
WRONG_TOKEN = (
    "The token is wrong or was already used. Open the address that the terminal "  # noqa: S105
    "printed last."
)
NO_COOKIE = (
    "The workbench does not recognize this browser. Open the full address that the terminal "
    "printed, including its token."
)
FOREIGN_ORIGIN = "This request came from another site and was rejected."
MISSING_CSRF = (
    "This request did not come from a page of this workbench, or the page was opened before the "
    "workbench was restarted. Nothing was done. Reload the page and try again."
)
TOO_MUCH = (
    "The request is too large; the limit is {limit} bytes. Nothing was saved. Choose a large table "
    "by its path instead of uploading it."
)
ONLY_LOOPBACK = (
    "host is {host!r}; it must be 127.0.0.1, ::1 or localhost, because the workbench shows private "
    "information. To connect from another machine, use a tunnel such as ssh -L "
    "{port}:127.0.0.1:{port}."
)
NOT_FOUND = "Page not found."

# --- every page -----------------------------------------------------------------------------------

ROWS_COUNTED = "number of rows"
INTERVALS_95 = "Estimated {what}, with 95% intervals"
BY = ", by {columns}"

# --- release explorer -----------------------------------------------------------------------------

THE_PROMISE = "The promise"
NOT_CONCLUDED = (
    "Every answer is an estimate; report its interval with it. If two intervals overlap widely, "
    "the two counts may be equal.",
    "Each interval holds with 95% confidence individually. Among many intervals, some do not "
    "contain the true value.",
    "A count near zero does not show that the group is empty, and its interval may start at zero.",
    "Published rows are synthetic. A row that resembles a person you know says nothing about that "
    "person.",
    "Counts show associations, not causes.",
)
FIGURES = {"": "row count", "mean": "mean", "median": "median"}
OF_ALL_ROWS = "of all rows"
SOME_NUMBERS = "For {n} of the {all} numbers: {note}"
COUNTING = "Counting …"

# --- workbench: frame -----------------------------------------------------------------------------

SCREENS = {
    "data": "Data",
    "schema": "Schema",
    "ledger": "Ledger",
    "plan": "Plan",
    "dry-run": "Dry run",
    "publish": "Publish",
    "report": "Report",
}
RUNNING = {
    "draft": "A schema is being drafted.",
    "publish": "A release is being published.",
    "dry-run": "A dry run is in progress.",
    "evaluate": "A release is being evaluated.",
    "compare": "Releases are being compared.",
    "dossier": "A dossier is being written.",
}

# --- projects -------------------------------------------------------------------------------------

NEXT_STEPS = {
    "data": "choose the private table",
    "schema": "describe what is public about the table, and confirm what was taken from the data",
    "ledger": "set the total privacy budget and create the ledger",
    "plan": "choose a method, and see its promise and expected error",
    "dry-run": "try the plan on a surrogate table",
    "publish": "publish a release",
    "report": "download and evaluate releases",
}
ALL_CONFIRMED = "Everything is confirmed."
FOLDER = "Project folder"

# --- data -----------------------------------------------------------------------------------------

DRAFT_HEADER = """\
# Drafted from the private table; internal. Everything listed under 'confirm' was taken from the
# data. Confirm it only if it is public knowledge: a single person's row may have changed it.
"""

# --- schema ---------------------------------------------------------------------------------------

SCHEMA_FIRST = "A plan needs a valid schema; draft or write one first:"
TO_LEDGER = "Go to the ledger"
CHECKING = "Checking the table …"
ROLES = {
    "attribute": "published",
    "target": "published, prediction target",
    "identifier": "identifies a person, not published",
    "left out": "left out, not published",
}
TYPES = {
    "categorical": "list of values",
    "boolean": "true or false",
    "integer": "whole numbers",
    "number": "numbers on a grid",
    "decimal": "decimal numbers",
    "date": "dates",
    "timestamp": "dates with times",
    "time": "times of day",
    "duration": "durations",
}
STEPS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
NOTHING_IN_IT = "(an empty cell)"
MISSING_RULES = {
    "other": "another value",
    "category": "missing, a separate value",
    "forbid": "an error",
}
OUTSIDE_RULES = {
    "clip": "the nearest bound",
    "other": "another value",
    "missing": "missing",
    "refuse": "an error",
}
SAVE = "Save"
YAML = "YAML; comments and order are kept"
MARKS = {
    "role": "role",
    "type": "type",
    "values": "values",
    "low": "minimum",
    "high": "maximum",
    "step": "step",
    "missing": "empty cells",
    "outside": "out-of-domain values",
    "special": "special values",
    "bins": "bins",
    "taxonomy": "groups",
    "ordered": "order",
    "missing_values": "codes for missing values",
    "unit": "unit of privacy",
    "reading": "file format",
}
REASON = "What is the public source?"

# --- trees ----------------------------------------------------------------------------------------

TREE_OF = "Groups of {column}"

# --- ledger ---------------------------------------------------------------------------------------

CAP = "cap"
SPENT = "spent"
RESERVED = "reserved"
DELTA = "delta"
ENTRIES = "Entries"
ENTRY_STATUS = {"charged": "charged", "released": "released", "void": "void"}
LEDGER_FIRST = "there is no ledger yet; create one under Ledger."

# --- plan -----------------------------------------------------------------------------------------

NO_DATA_READ = "No data was read."
NOT_AFFORDED = "The ledger will refuse it."
CURVE_X = "epsilon (smaller protects more)"
CURVE_Y = "error in rows for a count of 1% of the table (95%)"
SIDE_BY_SIDE = "Comparison of methods"
PLAN_FIRST = "no plan is saved yet; choose a method under Plan and save it."

# --- the advisor ----------------------------------------------------------------------------------

QUESTIONS = {
    "use": "How will the release be used?",
    "who": "Who will get it?",
    "rows": "How many rows does the table have, approximately?",
    "one_row": "Does each person have only one row?",
    "formal": "Is a formal guarantee required?",
}
CHOICES = {
    "use": {
        "rows": "General analysis of rows: plots, models and more",
        "counts": "Counts and cross tables",
        "predict": "Predicting one column from the others",
        "numbers": "Analysis of a few numeric columns, record by record",
    },
    "who": {
        "public": "The public",
        "partners": "Partners under a contract",
        "inside": "Colleagues in the organization",
    },
    "one_row": {"yes": "Yes", "no": "No, or I do not know"},
    "formal": {"yes": "Yes", "no": "No"},
}
REASONS = {
    "rows_and_counts": (
        "It publishes synthetic rows and the noisy tables behind them, so it supports counts with "
        "intervals as well as any other analysis."
    ),
    "few_cells": (
        "All columns together have few cells, so each cell can be counted directly: the only error "
        "is noise, which is easy to explain."
    ),
    "many_cells": (
        "All columns together have too many cells to count each one; quilt measures the most "
        "important marginals and estimates all other counts from them."
    ),
    "predict_target": (
        "It spends more of the budget on marginals that include the column to predict."
    ),
    "no_target": (
        "Set the role of the column to predict to target in the schema; the method then gives it "
        "priority."
    ),
    "uncertain_for_numbers": (
        "Each record is published as a region that several records share; distances and numeric "
        "analyses work on it directly."
    ),
    "no_formal_promise": (
        "Its promise holds against one kind of attacker only, and no ledger can count it."
    ),
    "who_public": "For the public, epsilon 1 is a strict and common choice.",
    "who_partners": (
        "Under a contract, epsilon 2 gives about half the error of epsilon 1; the promise does not "
        "depend on the contract."
    ),
    "who_inside": (
        "Inside the organization, epsilon 3 is a common choice. The same promise applies if the "
        "release is shared later."
    ),
    "formal_anyway": (
        "A formal guarantee costs little here, and needs no assumption about attackers."
    ),
    "several_rows": (
        "Your schema protects single rows. If a person may have several rows, set the unit of "
        "privacy under Schema: the column that identifies a person, and the maximum number of rows "
        "per person."
    ),
    "small_table": (
        "The table is small, so errors are large relative to counts; see the figures below."
    ),
}

# --- dry run --------------------------------------------------------------------------------------

NOT_THE_PRIVATE_TABLE = (
    "this is the private table; a dry run charges nothing, so it must not read it."
)
REPORT_OF_DRY_RUN = (
    "Internal. Dry run: this report compares a release of a surrogate table with that table. The "
    "private table was not read. Results about noise carry over to the private table; results "
    "about the data do not."
)
PHASE_DRAFT = "reading the table"
PHASE_STAND_IN = "making the surrogate table"

# --- publish --------------------------------------------------------------------------------------

TYPE_THE_NAME = (
    "the typed name is not {name!r}; nothing was done and nothing was charged. Type the name of "
    "the release to confirm."
)
PLAN_CHANGED = (
    "the plan, the schema, the table or the name changed after this page was opened, perhaps in "
    "another window; nothing was done and nothing was charged. Reload the page and check it again."
)
TELLS_NOTHING = (
    "This release would be empty: every count would be mostly noise. Forecast: {why} Choose "
    "another plan, or confirm that you want it. Nothing is charged until then."
)
SAY_SAME_PEOPLE = (
    "the schema has changed since the ledger was created; state why it describes the same people. "
    "Nothing was done and nothing was charged."
)
REASON_TO_GIVE = "REASON"
ENTRY_TO_GIVE = "ENTRY"

# --- jobs -----------------------------------------------------------------------------------------

JOB_NAMES = {
    "draft": "Drafting a schema",
    "publish": "Publishing",
    "dry-run": "Dry run",
    "evaluate": "Evaluating",
    "compare": "Comparing",
    "dossier": "Writing a dossier",
}
STATUS = {
    "starting": "Starting …",
    "running": "Running …",
    "done": "Done.",
    "refused": "Refused.",
    "failed": "Failed.",
    "canceled": "Canceled.",
    "killed": "Ended unexpectedly.",
}
PHASES = {
    "planning": "Planning",
    "charging": "Charging the ledger",
    "counting": "Reading the table, counting, adding noise",
    "writing": "Writing the release",
    "done": "Release complete",
}
LEFT_AS_BEFORE = "About {time} remaining, judging by the last run of this kind."
LEFT_AT_THIS_PACE = "About {time} remaining at the current rate."
ROWS_OUT = "The release has {n} rows."
ROWS_NOT_COUNTED = "The release is complete, but its rows could not be counted ({kind})."
JOB_CANCELED = "The job was canceled."

# --- error messages -------------------------------------------------------------------------------

NO_FILE = "no file was uploaded; choose one."
NO_ENTRY = "there is no such ledger entry."
RELEASE_NAME = "the release name"
NAME_TAKEN = "a release named {name!r} already exists; choose another name."
ROWS_BETWEEN = "rows is {rows!r}; it must be a number from 1 to {most:,}."
NO_DRY_RUN = "there is no report of dry run {name!r}."
TICK_TWO = "select at least two releases to compare."
TICK_SOME = "select at least one release for the dossier."
NO_REPORT = "there is no report {name!r}."
NO_LIST = "there is no categorical column {name!r}."
NO_SUCH_ACT = "{act!r} is not a known tree operation."
