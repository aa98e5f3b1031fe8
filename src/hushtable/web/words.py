"""All English texts of the workbench and the release explorer.

Messages of errors that lower layers raise (an invalid name, clause or tree operation) are defined
where they are raised.
"""

# --- security -------------------------------------------------------------------------------------

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

SKIP = "Skip to content"
SAME_COMMAND = "Equivalent command"
COPY = "Copy"
COPY_LABEL = "Copy the command"
REFUSED = "Request refused"
GO_BACK = "Go back"
BAR = "Bar with 95% interval"
COUNT = "count"
INTERVAL = "95% interval"
ROWS_COUNTED = "number of rows"
INTERVALS_95 = "Estimated {what}, with 95% intervals"
BY = ", by {columns}"

# --- release explorer -----------------------------------------------------------------------------

ANALYST_KICKER = "release explorer"
PUBLISHED_ON = "Published with the method {method} on {date}."
THE_PROMISE = "The promise"
NOT_PRIVATE = (
    "This release is not private: it was made with seeded noise, which anyone can reproduce and "
    "subtract. Use it for tests only."
)
LEFT_OUT = "What the promise does not cover"
MAY_NOT_CONCLUDE = "Limits of interpretation"
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
ASK = "Query the release"
ASK_LEAD = (
    "Estimate a row count, or the mean or median of a column. Open a column to filter by its "
    "values; the answer updates as you type."
)
FROM = "from"
TO = "to"
MISSING = "missing"
FIGURE = "Estimate the"
FIGURES = {"": "row count", "mean": "mean", "median": "median"}
FIGURE_OF = "of column"
REGRESSION = "Regression"
FORMULA = "Formula: outcome ~ regressors; write C(column) for categories"
FORMULA_EXAMPLE = "pay ~ age + C(region)"
LOGISTIC = "logistic regression (binary outcome)"
GROUP_BY = "Group by"
AND_BY = "and by"
NOTHING = "nothing"
CLAUSE = "Additional condition (SQL WHERE clause, optional)"
CLAUSE_EXAMPLE = "age < 18 OR age >= 65"
ASK_BUTTON = "Estimate"
CLEAR = "Reset"
BETWEEN_FIGURE = "{what} (95% interval {low} to {high})"
BETWEEN = "rows (95% interval {low} to {high})"
ROWS_WHERE = "where"
OF_ALL_ROWS = "of all rows"
SOME_NUMBERS = "For {n} of the {all} numbers: {note}"
ONE_BY_ONE = "Each interval holds with 95% confidence individually, not all of them jointly."
LINK = "Link to this query"
ANSWER_CSV = "Answer as CSV"
ANSWER_SVG = "Chart as SVG"
CROSS_TABLE = "Cross table"
COLUMNS = "Columns"
COLUMNS_LEAD = "Estimated from the release, with 95% intervals."
COUNTING = "Counting …"
TARGET = "target"
DOWNLOADS = "Downloads"
DOWNLOADS_LEAD = "The rows can be used like those of any table. Read the statement first."
ROWS_CSV = "Rows as CSV"
ROWS_PARQUET = "Rows as Parquet"
STATEMENT = "Statement"
STATEMENT_JSON = "Statement as JSON"

# --- workbench: frame -----------------------------------------------------------------------------

DESK_KICKER = "custodian's workbench, reachable from this machine only"
DESK_FOOTER = "Nothing on these pages is sent to another machine."
STEPS_LABEL = "Project steps"
STEP_DONE = "(done)"
SCREENS = {
    "data": "Data",
    "schema": "Schema",
    "ledger": "Ledger",
    "plan": "Plan",
    "rehearse": "Dry run",
    "publish": "Publish",
    "report": "Report",
}
LOOK = "Show progress."
RUNNING = {
    "draft": "A schema is being drafted.",
    "publish": "A release is being published.",
    "rehearse": "A dry run is in progress.",
    "evaluate": "A release is being evaluated.",
    "compare": "Releases are being compared.",
    "dossier": "A dossier is being written.",
}

# --- projects -------------------------------------------------------------------------------------

PROJECTS = "Projects"
PROJECTS_LEAD = (
    "A project covers one private table: its public schema, its privacy budget and its releases. "
    "It is a folder of plain files."
)
NEXT = "Next:"
NEXT_STEPS = {
    "data": "choose the private table",
    "schema": "describe what is public about the table, and confirm what was taken from the data",
    "ledger": "set the total privacy budget and create the ledger",
    "plan": "choose a method, and see its promise and expected error",
    "rehearse": "try the plan on a surrogate table",
    "publish": "publish a release",
    "report": "download and evaluate releases",
}
NEW_PROJECT = "New project"
PROJECT_NAME = "Name"
NAME_RULE = "Letters without accents, digits, dots, dashes and underscores; no spaces."
CREATE = "Create project"
FOLDER_IS = "Projects are stored in"
NO_DATA = "No table chosen."
IN_FOLDER = "in {folder}"
SCHEMA_HAS = "{n} columns will be published."
TO_CONFIRM = "{n} items remain to be confirmed."
ALL_CONFIRMED = "Everything is confirmed."
NO_SCHEMA = "No schema yet."
LEFT_OF = "At least {left} of epsilon {cap} remains."
NO_LEDGER = "No ledger yet."
RELEASES = "Releases"
NO_RELEASES = "No releases yet."
JOBS = "Recent jobs"
FOLDER = "Project folder"
FOLDER_LEAD = "Plain files that the command line also reads:"
F_PROJECT = "location of the table, and the plan"
F_SCHEMA = "public description of the table"
F_LEDGER = "privacy budget spent so far"
F_RELEASES = "releases, which may be shared"
F_REPORTS = "comparisons with the private table: internal"
F_REHEARSALS = "reports of dry runs on a surrogate table"

# --- data -----------------------------------------------------------------------------------------

DATA_LEAD = (
    "Choose the private table. It is read in place: nothing is copied, and no row is shown on any "
    "screen."
)
CHOSEN_TABLE = "Table"
HEADER_ONLY = "Internal. Column names and types; no row was read."
ALL_TEXT = "A CSV file stores text only; drafting detects which columns are numbers or dates."
HEADER = "Columns of the table"
COLUMN = "column"
STORED_AS = "stored as"
DRAFT = "Draft a schema"
DRAFT_AGAIN = "Draft the schema again"
DRAFT_HINT = (
    "Reads the whole table on this machine. Everything taken from the data is marked; publishing "
    "is refused until a person confirms that it is public."
)
TO_SCHEMA = "Go to the schema"
BY_PATH = "A file on this machine"
FOUND_TABLES = "Tables in the allowed folders"
CHOOSE = "choose …"
OTHER_PATH = "Or enter its path"
USE_TABLE = "Use this table"
PATH_HINT = (
    "CSV (also .csv.gz), TSV or Parquet. To allow another folder, start the workbench with --data "
    "FOLDER."
)
UPLOAD = "Upload"
UPLOAD_FILE = "File"
UPLOAD_BUTTON = "Upload"
UPLOAD_HINT = (
    "The file is stored in a folder that only you can read, and deleted when the workbench stops."
)
DRAFT_HEADER = """\
# Drafted from the private table; internal. Everything listed under 'confirm' was taken from the
# data. Confirm it only if it is public knowledge: a single person's row may have changed it.
"""

# --- schema ---------------------------------------------------------------------------------------

SCHEMA_FIRST = "A plan needs a valid schema; draft or write one first:"
SCHEMA_LEAD = (
    "The public description of the table. Domains must come from public knowledge, such as a "
    "questionnaire or a code book, never from the values that occur in the table."
)
CONFIRM_LEAD = (
    "Parts with a thick border were taken from the data. Correct each one, tick it, and state the "
    "public source. Publishing is refused until all are confirmed."
)
TO_LEDGER = "Go to the ledger"
CHECKING = "Checking the table …"
CHECK = "Does the table match the schema?"
CHECK_NEEDS_SCHEMA = "The schema is not valid yet."
CHECK_NEEDS_DATA = "No table is chosen, so nothing can be checked."
CHECK_NOW = "Check now"
LARGE_TABLE = "The table is large, so it is checked only on request."
EXACT_COUNTS = (
    "Internal. These counts are exact. Use them to find mistakes in the table or the schema. "
    "Choose domains from public knowledge, never to accommodate single rows."
)
FITS = "All values of the table are in their domains."
UNDO = "Undo the last change"
WHOLE_TABLE = "Whole table"
TABLE_NAME = "Published name"
PUBLIC_ROWS = "Number of rows, if public"
UNIT = "Unit of privacy"
UNIT_ROW = "one row"
UNIT_PERSON = "a person, identified by {column}"
MAX_ROWS = "Maximum rows per person"
UNIT_IS = "The promise protects {unit}."
ROLE = "Role"
ROLES = {
    "attribute": "published",
    "target": "published, prediction target",
    "identifier": "identifier, not published",
}
TYPE = "Type"
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
VALUES = "Values, one per line"
LOW = "From"
HIGH = "To"
STEP = "Step"
MISSING_CELLS = "Empty cells become"
MISSING_RULES = {
    "other": "another value",
    "category": "missing, a separate value",
    "forbid": "an error",
}
OUTSIDE_CELLS = "Out-of-domain values become"
OUTSIDE_RULES = {
    "clip": "the nearest bound",
    "other": "another value",
    "missing": "missing",
    "refuse": "an error",
}
SAVE = "Save"
SPECIAL = "Special values, one per line: value = name"
REMARK = "Internal note: {remark}"
EDIT_TREE = "Edit its groups"
MAKE_TREE = "Group its values"
NO_SCHEMA_YET = "There is no schema yet. Choose the table and draft one, or write it below:"
AS_TEXT = "Schema as text"
YAML = "YAML; comments and order are kept"
FROM_DATA = "Taken from the data. Tick what is public knowledge:"
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
ALL = "all"
REASON = "What is the public source?"
REASON_EXAMPLE = "question 4 of the public questionnaire"
CONFIRM = "Confirm"
LINES_LEFT = "{left} of {all} lines remain."
TO_FIRST_LEFT = "Go to the first"
LINE_CONFIRMED = "confirmed"

# --- trees ----------------------------------------------------------------------------------------

TREE_OF = "Groups of {column}"
TREE_LEAD = (
    "Methods that need coarser values use the groups of this tree. Drag a value or a group onto "
    "another group, or use the forms. Groups are public."
)
DRAG_HINT = "Drag values and groups onto a group."
MOVE = "Move"
MOVE_WHAT = "Value or group"
MOVE_TO = "To"
NEW_GROUP = "New group"
GROUP_MEMBERS = "Members"
GROUP_NAME = "Name"
MAKE_GROUP = "Create the group"
GROUPS = "Existing group"
GROUP = "Group"
NEW_NAME = "New name"
RENAME = "Rename"
UNGROUP = "Dissolve the group"
DROP_TREE = "Delete the whole tree"
BACK_TO_SCHEMA = "Back to the schema"

# --- ledger ---------------------------------------------------------------------------------------

LEDGER_LEAD = (
    "Every release spends part of the privacy budget of these people, permanently. The ledger "
    "records each charge before the table is read, and refuses charges beyond its cap."
)
LEDGER_NEEDS_SCHEMA = "A ledger needs a confirmed schema; finish that first:"
CAP_EPSILON = "Cap on epsilon"
CAP_EPSILON_HINT = (
    "The total epsilon of all releases never exceeds this cap, and it cannot be changed later. 1 "
    "is strict, 3 is common; above 10 the protection is weak."
)
CAP_DELTA = "Cap on delta"
CAP_DELTA_HINT = (
    "Roughly, the probability that the epsilon bound fails. Choose far less than 1 divided by the "
    "number of people."
)
START_LEDGER = "Create the ledger"
PROTECTS = "It adds up the privacy loss of {unit}."
UNCOUNTED = "This ledger also contains releases whose cost it cannot count."
CAP = "cap"
SPENT = "spent"
RESERVED = "reserved"
LEFT = "remaining, at least"
DELTA = "delta"
EPSILON = "epsilon"
LEDGER_PICTURE = "Epsilon spent by entry, and the cap."
STILL_FITS = "Remaining budget:"
TWO_ACCOUNTS = (
    "The ledger uses two composition rules, and a release must satisfy only one of them. The "
    "figures above are for basic composition, which is assigned half of delta; zCDP composition "
    "often allows more."
)
ENTRIES = "Entries"
NUMBER = "entry"
WHEN = "when (UTC)"
PURPOSE = "purpose"
BECAME = "status"
RECEIPT = "receipt"
NOT_COUNTED = "not counted"
ENTRY_STATUS = {"charged": "charged", "released": "released", "void": "void"}
VOID = "Void a charge"
VOID_LEAD = (
    "Void a charge only if nobody has seen any output of its run, for example because the run "
    "failed. Your statement is recorded in the ledger. Charges cannot be reversed in any other "
    "way."
)
VOID_REASON = "Your name and the reason"
VOID_BUTTON = "Void the charge"
NO_ENTRIES = "No charges yet."
TO_PLAN = "Go to the plan"
HEAD = "Receipt of the last record:"
LEDGER_FIRST = "there is no ledger yet; create one under Ledger."

# --- plan -----------------------------------------------------------------------------------------

PLAN_LEAD = "Choose a method to see its promise and the expected error of counts."
ASK_ADVISOR = "Or answer five questions."
METHOD = "Method"
BASELINE = "baseline"
SHOW_METHOD = "Show this method"
ROWS_EXPECTED = "Expected number of rows (approximate)"
ROWS_HINT = "An estimate from public knowledge; the table is not read."
ROWS_FIRST = (
    "Enter the approximate number of rows to see the expected error. Use public knowledge, such as "
    "the size of the town, not the table itself."
)
WANT = "Required accuracy of counts"
WITHIN = "Maximum error in rows"
WANT_SHARE = "for a count of this % of the rows"
MORE_PARAMETERS = "More parameters"
SAVE_PLAN = "Save and start a dry run"
SAVE_AND_PUBLISH = "Save and publish"
SLIDER = "slider"
NO_DATA_READ = "No data was read."
PRICE = "It costs epsilon {epsilon}; at least {left} would remain in the ledger."
NOT_AFFORDED = "The ledger will refuse it."
HOLLOW = "A release like this would be empty: every count would be mostly noise. Forecast: {why}"
WANT_ANSWER = (
    "This requires epsilon {epsilon}: the error of such a count is then at most {error} rows with "
    "95% confidence."
)
CURVE_TITLE = "Error by epsilon"
CURVE_X = "epsilon (smaller protects more)"
CURVE_Y = "error in rows for a count of 1% of the table (95%)"
ERRORS_TITLE = "Expected error of counts"
QUESTION = "query"
OFF_BY = "error at most (95%)"
OF_THE_COUNT = "of the count"
COUNT_OF = "a count of {share}% of the rows"
ROWS = "rows"
NOT_KNOWN = "not known in advance"
SIDE_BY_SIDE = "Comparison of methods"
SIDE_BY_SIDE_LEAD = (
    "Each figure depends on its assumptions, and these differ between methods: a method with a "
    "smaller error here may have a larger error for other queries. A dry run shows more."
)
SUPPOSING = "assumptions"
OFF_BY_AT_1 = "error at most for a count of 1% (95%)"
EXPECTED = "Further forecasts"
MEMORY = "memory: about {mb} MB"
SPLIT = "Division of the budget"
PLAN_FIRST = "no plan is saved yet; choose a method under Plan and save it."

# --- the advisor ----------------------------------------------------------------------------------

ADVISOR = "Choosing a method"
ADVISOR_LEAD = (
    "Answer five questions to get a recommendation with its reasons and its cost. No data is read."
)
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
ADVISE = "Recommend"
ADVICE = "Use {method}"
TAKE_ADVICE = "Plan with this method"
OTHERS = "Alternatives:"
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

# --- rehearse -------------------------------------------------------------------------------------

REHEARSE_LEAD = (
    "Run the whole plan on a surrogate table: rows sampled from the schema alone, which describe "
    "no real person. You see the full report and the run time. It costs no budget, and the private "
    "table is not read. Results about noise carry over to the private table; results about the "
    "data do not."
)
STAND_IN_ROWS = "Rows of the surrogate table"
PUBLIC_TABLE = "Use a public table with the same columns instead"
PUBLIC_TABLE_PATH = "Its path. It must be public, because nothing is charged."
NOT_THE_PRIVATE_TABLE = (
    "this is the private table; a dry run charges nothing, so it must not read it."
)
REHEARSE_BUTTON = "Start a dry run of {method}"
SKIP_REHEARSAL = "Skip to publishing"
REHEARSE_COMMAND = "Equivalent command (prints the error of counts)"
REPORT_OF_REHEARSAL = (
    "Internal. Dry run: this report compares a release of a surrogate table with that table. The "
    "private table was not read. Results about noise carry over to the private table; results "
    "about the data do not."
)
REHEARSALS = "Earlier dry runs"
REHEARSAL = "Report of dry run {name}"
PHASE_DRAFT = "reading the table"
PHASE_STAND_IN = "making the surrogate table"

# --- publish --------------------------------------------------------------------------------------

PUBLISH_LEAD = (
    "The ledger records the charge first. Then the table is read, and the complete release appears "
    "in one step."
)
CHARGE = "This release costs epsilon"
LEFT_NOW = "Epsilon remaining now, at least"
LEFT_AFTER = "Epsilon remaining afterward, at least"
CHARGE_STANDS = (
    "The charge remains even if the run fails or is canceled, because the run may have shown "
    "something. Only a person can void it, and the ledger records who and why."
)
PURPOSE_LABEL = "Purpose, for the ledger"
PURPOSE_EXAMPLE = "yearly table for the health service"
TYPE_NAME_BEFORE = "Type"
TYPE_NAME_AFTER = "to confirm the name of the release"
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
SCHEMA_CHANGED = (
    "The schema has changed since the ledger was created. The ledger can only be charged for "
    "releases about the same people; another table needs its own project."
)
SAME_PEOPLE = "Why it describes the same people (recorded in the ledger)"
SAME_PEOPLE_EXAMPLE = "the same table; its list of regions was corrected"
SAY_SAME_PEOPLE = (
    "the schema has changed since the ledger was created; state why it describes the same people. "
    "Nothing was done and nothing was charged."
)
REASON_TO_GIVE = "REASON"
ENTRY_TO_GIVE = "ENTRY"
ANYWAY = "Publish it anyway"
PUBLISH_BUTTON = "Charge the ledger and publish"
OTHER_NAME = "Name of the release"
USE_NAME = "Change the name"
WHAT_IS_PUBLISHED = "Summary"
THE_TABLE = "Table"
THE_METHOD = "Method"
THE_UNIT = "Unit of privacy"
OTHER_PLAN = "Change the plan"

# --- jobs -----------------------------------------------------------------------------------------

JOB_NAMES = {
    "draft": "Drafting a schema",
    "publish": "Publishing",
    "rehearse": "Dry run",
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
PHASES_LABEL = "Completed phases"
ELAPSED = "{time} elapsed."
LEFT_AS_BEFORE = "About {time} remaining, judging by the last run of this kind."
LEFT_AT_THIS_PACE = "About {time} remaining at the current rate."
TOOK = "Duration: {time}."
ROWS_OUT = "The release has {n} rows."
ROWS_NOT_COUNTED = "The release is complete, but its rows could not be counted ({kind})."
MAY_CLOSE = (
    "You may close this page or the workbench: the job continues, and you can open it again later."
)
CANCEL = "Cancel"
CANCEL_STANDS = "A charge that was already recorded remains."
JOB_CANCELED = "The job was canceled."
KILLED = (
    "The process ended without reporting a result: it was killed, or the machine stopped. If it "
    "was publishing, check the ledger; a charge that was recorded remains."
)
DOWNLOAD = "Download the release"
TO_REPORT = "Go to the report"
TO_PUBLISH = "Go to publishing"
OPEN_REPORT = "Open the report"

# --- report ---------------------------------------------------------------------------------------

REPORT_LEAD = (
    "A release may be shared together with its statement. An evaluation report compares it with "
    "the private table and is internal."
)
LOOK_AS_ANALYST = "Open in the release explorer"
EVALUATE = "Evaluate (internal)"
TOGETHER = "Dossier and comparison"
DOSSIER = "Write a dossier"
DOSSIER_HINT = (
    "A dossier answers common questions of ethics boards and data protection officers from the "
    "statements and the ledger. If no file contains an answer, it says so."
)
COMPARE_BUTTON = "Compare (internal)"
REPORTS = "Reports"
REPORTS_INTERNAL = (
    "Internal. Reports compare releases with the private table and are not covered by the promise."
)
REPORT_COMMANDS = "Equivalent commands: explore, evaluate, write a dossier, compare"

# --- error messages -------------------------------------------------------------------------------

NO_FILE = "no file was uploaded; choose one."
NO_ENTRY = "there is no such ledger entry."
RELEASE_NAME = "the release name"
NAME_TAKEN = "a release named {name!r} already exists; choose another name."
ROWS_BETWEEN = "rows is {rows!r}; it must be a number from 1 to {most:,}."
NO_REHEARSAL = "there is no report of dry run {name!r}."
TICK_TWO = "select at least two releases to compare."
TICK_SOME = "select at least one release for the dossier."
NO_REPORT = "there is no report {name!r}."
NO_LIST = "there is no categorical column {name!r}."
NO_SUCH_ACT = "{act!r} is not a known tree operation."
