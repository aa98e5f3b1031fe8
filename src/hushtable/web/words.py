"""Every English sentence of the screens, in one place.

What is refused below the screens (a name, a clause, a move in a tree) is said where it is refused,
as everywhere in hushtable.
"""

# --- security -------------------------------------------------------------------------------------

INTERNAL_ERROR = (
    "Internal error ({kind}). What it said is withheld, since it may quote private values."
)
FOREIGN_HOST = (
    "This address is not the workbench's. Open the address that the terminal printed; behind "
    "another name the workbench answers nobody."
)
UNKNOWN_NAME = (
    "This page does not answer to the name that it was called by. Open the address that the "
    "terminal printed; behind a reverse proxy, start it with --name NAME, as visitors write it."
)
METHOD_NOT_ALLOWED = "This cannot be done here."
WRONG_TOKEN = (
    "The token is wrong, or was for one visit only. Open the address that the terminal "  # noqa: S105
    "printed last."
)
NO_COOKIE = (
    "The workbench does not know this browser. Open the whole address that the terminal printed, "
    "with its token."
)
FOREIGN_ORIGIN = "This was sent by a page of another site, so nothing was done."
MISSING_CSRF = (
    "This did not come from a page of this workbench, or from one that was opened before it was "
    "started again. Nothing was done; open the page anew and try again."
)
TOO_MUCH = (
    "More was sent than is taken here: at most {limit} bytes. Nothing was kept. Give a large table "
    "by its path instead."
)
ONLY_LOOPBACK = (
    "host is {host!r}; the workbench shows what only the custodian may see, so it listens to this "
    "machine alone: 127.0.0.1, ::1 or localhost. From another machine, use a tunnel such as "
    "ssh -L {port}:127.0.0.1:{port}."
)
NOT_FOUND = "There is no such page here."

# --- every page -----------------------------------------------------------------------------------

SKIP = "Skip to the content"
SAME_COMMAND = "The command that does the same"
COPY = "Copy"
COPY_LABEL = "Copy the command"
REFUSED = "This was not done"
GO_BACK = "Go back"
BAR = "Bar with 95 % interval"
COUNT = "count"
INTERVAL = "95 % interval"
ROWS_COUNTED = "number of rows"
INTERVALS_95 = "Estimated {what}, with 95 % intervals"
BY = ", by {columns}"

# --- the analyst's page ---------------------------------------------------------------------------

ANALYST_KICKER = "a release, and what it promises"
PUBLISHED_ON = "Published with the method {method} on {date}."
THE_PROMISE = "The promise"
NOT_PRIVATE = (
    "This release is not private: it was made with seeded noise, which anybody can subtract. It is "
    "for tests only."
)
LEFT_OUT = "What the promise leaves out"
MAY_NOT_CONCLUDE = "What may not be concluded"
NOT_CONCLUDED = (
    "An answer is an estimate: the interval belongs to it. Where two intervals overlap widely, the "
    "two counts may well be the same.",
    "Each interval holds in 95 of 100 cases by itself. Among many numbers, some are outside.",
    "A count near zero does not say that there is nobody: its interval may begin at zero.",
    "Published rows are nobody's rows. One that looks like a person you know says nothing about "
    "that person.",
    "Counts say what goes together, not what causes what.",
)
ASK = "Ask"
ASK_LEAD = (
    "How many rows are there of a kind, or what is the mean of a column among them? Open a column, "
    "choose, and the answer follows."
)
FROM = "from"
TO = "to"
MISSING = "missing"
FIGURE = "Give the"
FIGURES = {"": "row count", "mean": "mean", "median": "median"}
FIGURE_OF = "of the column"
REGRESSION = "A regression"
FORMULA = "Outcome ~ columns that explain it, with C() around groups"
FORMULA_EXAMPLE = "pay ~ age + C(region)"
LOGISTIC = "logistic: the outcome is one of two values"
GROUP_BY = "Group by"
AND_BY = "and by"
NOTHING = "nothing"
CLAUSE = "And also (a SQL WHERE clause, if you like)"
CLAUSE_EXAMPLE = "age < 18 OR age >= 65"
ASK_BUTTON = "Ask"
CLEAR = "Start over"
BETWEEN_FIGURE = "{what}, and with 95 % confidence {low} to {high}"
BETWEEN = "rows, and with 95 % confidence {low} to {high}"
ROWS_WHERE = "where"
OF_ALL_ROWS = "of all rows"
SOME_NUMBERS = "For {n} of the {all} numbers: {note}"
ONE_BY_ONE = "Each interval holds by itself, not all of them together."
LINK = "Link to this question"
ANSWER_CSV = "Answer as CSV"
ANSWER_SVG = "Picture as SVG"
CROSS_TABLE = "Cross table"
COLUMNS = "The columns"
COLUMNS_LEAD = "Estimated from the release, with 95 % intervals."
COUNTING = "Counting …"
TARGET = "target"
DOWNLOADS = "Take it with you"
DOWNLOADS_LEAD = "The rows can be used like those of any table; read the statement first."
ROWS_CSV = "Rows as CSV"
ROWS_PARQUET = "Rows as Parquet"
STATEMENT = "Statement"
STATEMENT_JSON = "Statement for programs"

# --- the desk: frame ------------------------------------------------------------------------------

DESK_KICKER = "the custodian's desk, on this machine alone"
DESK_FOOTER = "Nothing on these pages leaves this machine by itself."
STEPS_LABEL = "Steps of the project"
STEP_DONE = "(done)"
SCREENS = {
    "data": "Data",
    "schema": "Schema",
    "ledger": "Ledger",
    "plan": "Plan",
    "rehearse": "Rehearse",
    "publish": "Publish",
    "report": "Report",
}
LOOK = "Look at it."
RUNNING = {
    "draft": "A schema is being drafted.",
    "publish": "A release is being published.",
    "rehearse": "A rehearsal is running.",
    "evaluate": "A release is being evaluated.",
    "compare": "Releases are being compared.",
    "dossier": "A dossier is being written.",
}

# --- projects -------------------------------------------------------------------------------------

PROJECTS = "Projects"
PROJECTS_LEAD = (
    "A project is about one private table: what is public about it, what may be spent on it, and "
    "what has been published. It is a folder of plain files."
)
NEXT = "Next:"
NEXT_STEPS = {
    "data": "say where the private table is",
    "schema": "say what is public about it, and confirm what came from the data",
    "ledger": "decide how much may ever be spent, and start the ledger",
    "plan": "choose a method, and see its promise and its error",
    "rehearse": "rehearse on a stand-in",
    "publish": "publish a release",
    "report": "see what was published, and what it is worth",
}
NEW_PROJECT = "A new project"
PROJECT_NAME = "Name"
NAME_RULE = "Letters without accents, digits, dots, dashes and underscores; no spaces."
CREATE = "Create the project"
FOLDER_IS = "Projects are kept in"
NO_DATA = "No table is chosen."
IN_FOLDER = "in {folder}"
SCHEMA_HAS = "{n} columns are published."
TO_CONFIRM = "In {n} places, something is left to confirm."
ALL_CONFIRMED = "Everything is confirmed."
NO_SCHEMA = "There is none yet."
LEFT_OF = "Of epsilon {cap}, at least {left} is left."
NO_LEDGER = "None is started."
RELEASES = "Releases"
NO_RELEASES = "Nothing is published yet."
JOBS = "What ran lately"
FOLDER = "The folder"
FOLDER_LEAD = "Plain files, which the command line understands as they are:"
F_PROJECT = "where the table is, and what is planned"
F_SCHEMA = "what is public about the table"
F_LEDGER = "what has been spent"
F_RELEASES = "what may be handed out"
F_REPORTS = "comparisons with the private table: internal"
F_REHEARSALS = "the same on a stand-in"

# --- data -----------------------------------------------------------------------------------------

DATA_LEAD = (
    "Where is the private table? It is read where it lies: nothing is copied, and no row is shown "
    "on any screen."
)
CHOSEN_TABLE = "The table"
HEADER_ONLY = "Internal. Names and types of the columns; no row was read."
ALL_TEXT = "A CSV file holds texts only; the draft finds out which are numbers or dates."
HEADER = "Columns of the table"
COLUMN = "column"
STORED_AS = "stored as"
DRAFT = "Draft a schema from it"
DRAFT_AGAIN = "Draft the schema anew"
DRAFT_HINT = (
    "Reads the whole table, on this machine. What it takes from the data is marked, and nothing "
    "can be published before a person has confirmed that it is public."
)
TO_SCHEMA = "To the schema"
BY_PATH = "A file on this machine"
FOUND_TABLES = "Tables in the folders that the workbench was started for"
CHOOSE = "choose …"
OTHER_PATH = "Or its path"
USE_TABLE = "Use this table"
PATH_HINT = "CSV (also .csv.gz), TSV or Parquet. Start with --data FOLDER to allow another folder."
UPLOAD = "An upload"
UPLOAD_FILE = "File"
UPLOAD_BUTTON = "Upload"
UPLOAD_HINT = (
    "It is kept in a folder that only you can read, and removed when the workbench is closed."
)
DRAFT_HEADER = """\
# Drafted from the private table, for the custodian's eyes. What stands under 'confirm' was taken
# from the data. All of it must be what anybody could know, not what happens to occur: one person's
# row can change any of it.
"""

# --- schema ---------------------------------------------------------------------------------------

SCHEMA_FIRST = "A plan needs a valid schema; draft or write one first:"
SCHEMA_LEAD = (
    "What is public about the table. A domain must come from public knowledge, such as a "
    "questionnaire or a code book, never from what happens to occur in the table."
)
CONFIRM_LEAD = (
    "Some parts were taken from the data; they have a thick border. Correct them, tick them and "
    "say how anybody could know them. Publishing is refused until then."
)
TO_LEDGER = "To the ledger"
CHECKING = "Checking the table …"
CHECK = "Does the table fit?"
CHECK_NEEDS_SCHEMA = "The schema is not valid yet."
CHECK_NEEDS_DATA = "No table is chosen, so there is nothing to check."
CHECK_NOW = "Check now"
LARGE_TABLE = "The table is large, so it is checked when you ask."
EXACT_COUNTS = (
    "Internal. These counts are exact. They may show a mistake in the table or the schema; choose "
    "the domain from public knowledge, never to let one row fit."
)
FITS = "Every cell of the table fits."
UNDO = "Undo the last change"
WHOLE_TABLE = "The whole table"
TABLE_NAME = "Name that is published"
PUBLIC_ROWS = "Rows, if public"
UNIT = "Who is protected"
UNIT_ROW = "one row"
UNIT_PERSON = "a person, told by {column}"
MAX_ROWS = "Rows of a person, at most"
UNIT_IS = "The promise protects {unit}."
ROLE = "Role"
ROLES = {
    "attribute": "published",
    "target": "published, to predict",
    "identifier": "identifies, dropped",
}
TYPE = "Type"
TYPES = {
    "categorical": "list of values",
    "boolean": "true or false",
    "integer": "whole numbers",
    "number": "numbers on a grid",
    "decimal": "decimal numbers",
    "date": "dates",
    "timestamp": "moments",
    "time": "times of day",
    "duration": "lengths of time",
}
STEPS = ("second", "minute", "hour", "day", "week", "month", "quarter", "year")
NOTHING_IN_IT = "(an empty cell)"
VALUES = "Values, one per line"
LOW = "From"
HIGH = "To"
STEP = "Step"
MISSING_CELLS = "An empty cell counts as"
MISSING_RULES = {
    "other": "another value",
    "category": "missing, a value of its own",
    "forbid": "a reason to refuse",
}
OUTSIDE_CELLS = "A cell outside counts as"
OUTSIDE_RULES = {
    "clip": "the nearest bound",
    "other": "another value",
    "missing": "missing",
    "refuse": "a reason to refuse",
}
SAVE = "Save"
SPECIAL = "Values that stand for something, each = its name"
REMARK = "Internal note: {remark}"
EDIT_TREE = "Edit its tree"
MAKE_TREE = "Group its values"
NO_SCHEMA_YET = "There is no schema yet. Choose the table and draft one, or write it below:"
AS_TEXT = "The schema as text"
YAML = "YAML; comments and order are kept"
FROM_DATA = "Taken from the data. Tick what is public knowledge:"
MARKS = {
    "role": "role",
    "type": "type",
    "values": "values",
    "low": "lowest",
    "high": "highest",
    "step": "step",
    "missing": "empty cells",
    "outside": "cells outside",
    "special": "special values",
    "bins": "bins",
    "taxonomy": "groups",
    "ordered": "order",
    "missing_values": "words for a missing value",
    "unit": "who is protected",
    "reading": "how the file is read",
}
ALL = "all of them"
REASON = "How could anybody know this?"
REASON_EXAMPLE = "question 4 of the public questionnaire"
CONFIRM = "Confirm"
LINES_LEFT = "{left} of {all} lines are left."
TO_FIRST_LEFT = "To the first"
LINE_CONFIRMED = "confirmed"

# --- trees ----------------------------------------------------------------------------------------

TREE_OF = "Groups of {column}"
TREE_LEAD = (
    "Methods that need coarser values take the groups of this tree. Drag a value or a group onto "
    "another group, or use the forms. Groups are public."
)
DRAG_HINT = "Drag values and groups here, onto a group."
MOVE = "Move"
MOVE_WHAT = "Value or group"
MOVE_TO = "Into"
NEW_GROUP = "A new group"
GROUP_MEMBERS = "What goes into it"
GROUP_NAME = "Its name"
MAKE_GROUP = "Make the group"
GROUPS = "A group that is there"
GROUP = "Group"
NEW_NAME = "Another name"
RENAME = "Name it so"
UNGROUP = "Take the group out"
DROP_TREE = "Take the whole tree out"
BACK_TO_SCHEMA = "Back to the schema"

# --- ledger ---------------------------------------------------------------------------------------

LEDGER_LEAD = (
    "Every release costs a part of what may be spent on these people, for good. The ledger records "
    "each charge before the table is read, and refuses what goes beyond its cap."
)
LEDGER_NEEDS_SCHEMA = "A ledger is bound to a confirmed schema; finish that first:"
CAP_EPSILON = "Cap on epsilon"
CAP_EPSILON_HINT = (
    "All releases together never exceed it, and it cannot be changed later. 1 is strict, 3 is "
    "usual, above 10 little is protected."
)
CAP_DELTA = "Cap on delta"
CAP_DELTA_HINT = "The chance that epsilon is exceeded; far less than one in the number of people."
START_LEDGER = "Start the ledger"
PROTECTS = "It adds up what is promised to {unit}."
UNCOUNTED = "This ledger also holds releases that it cannot count."
CAP = "cap"
SPENT = "spent"
RESERVED = "set aside"
LEFT = "left, at least"
DELTA = "delta"
EPSILON = "epsilon"
LEDGER_PICTURE = "Epsilon spent, entry by entry, below the cap."
STILL_FITS = "What still fits:"
TWO_ACCOUNTS = (
    "Releases are added up in two ways, and a release must fit only one of them. The figures above "
    "are those of plain addition, which has half of delta; by the other way there is often more."
)
ENTRIES = "Entries"
NUMBER = "entry"
WHEN = "when (UTC)"
PURPOSE = "purpose"
BECAME = "what became of it"
RECEIPT = "receipt"
NOT_COUNTED = "not counted"
ENTRY_STATUS = {"charged": "charged", "released": "released", "void": "void"}
VOID = "Take a charge back"
VOID_LEAD = (
    "Only for a charge of which nothing was ever seen by anyone, such as that of a run that "
    "failed. It is your word, it goes on record, and nothing else takes a charge back."
)
VOID_REASON = "Who says so, and why"
VOID_BUTTON = "Take it back"
NO_ENTRIES = "Nothing has been charged."
TO_PLAN = "To the plan"
HEAD = "Receipt of the last record:"
LEDGER_FIRST = "there is no ledger yet; start one under Ledger."

# --- plan -----------------------------------------------------------------------------------------

PLAN_LEAD = "Choose a method, and see at once what it promises and how far its counts will be off."
ASK_ADVISOR = "Or answer five questions."
METHOD = "Method"
BASELINE = "for comparison"
SHOW_METHOD = "Show this method"
ROWS_EXPECTED = "Rows to expect, roughly"
ROWS_HINT = "A guess from public knowledge; nothing is counted here."
ROWS_FIRST = (
    "Say how many rows to expect, roughly, and see here how far counts will be off. Say what "
    "anybody could guess, such as the size of the town, not what the table holds."
)
WANT = "I need counts within …"
WITHIN = "rows"
WANT_SHARE = "for a count of so many % of the rows"
MORE_PARAMETERS = "More parameters"
SAVE_PLAN = "Keep this plan and rehearse"
SAVE_AND_PUBLISH = "Keep it and publish"
SLIDER = "slider"
NO_DATA_READ = "No data has been read."
PRICE = "It costs epsilon {epsilon}; at least {left} would be left in the ledger."
NOT_AFFORDED = "The ledger will refuse it."
HOLLOW = "A release like this would be empty: every count would be mostly noise. Forecast: {why}"
WANT_ANSWER = (
    "That takes epsilon {epsilon}: with 95 % confidence such a count is then off by at most "
    "{error} rows."
)
CURVE_TITLE = "Error against epsilon"
CURVE_X = "epsilon: less protects more"
CURVE_Y = "rows off, for a count of 1 % of the table (95 %)"
ERRORS_TITLE = "How far counts will be off"
QUESTION = "question"
OFF_BY = "off by at most"
OF_THE_COUNT = "of the count"
COUNT_OF = "a count of {share} % of the rows"
ROWS = "rows"
NOT_KNOWN = "not known beforehand"
SIDE_BY_SIDE = "Methods side by side"
SIDE_BY_SIDE_LEAD = (
    "Each figure holds for what it supposes, and they do not suppose the same: a method that is "
    "closer here may be further off in other questions. A rehearsal shows more."
)
SUPPOSING = "supposing"
OFF_BY_AT_1 = "a count of 1 % is off by at most"
EXPECTED = "What else to expect"
MEMORY = "memory: about {mb} MB"
SPLIT = "How the budget is divided"
PLAN_FIRST = "no plan is kept yet; choose a method under Plan and keep it."

# --- the advisor ----------------------------------------------------------------------------------

ADVISOR = "Which method?"
ADVISOR_LEAD = (
    "Five questions, and a recommendation with its reasons and its price. No data is read."
)
QUESTIONS = {
    "use": "What will people do with it?",
    "who": "Who gets it?",
    "rows": "How many rows does the table have, roughly?",
    "one_row": "Is each person in one row only?",
    "formal": "Is a formal promise needed?",
}
CHOICES = {
    "use": {
        "rows": "Work with rows like those of the table: plots, models, anything",
        "counts": "Count: tables and cross tables",
        "predict": "Predict one column from the others",
        "numbers": "Analyze a few numeric columns, record by record",
    },
    "who": {
        "public": "Anybody",
        "partners": "Partners, under a contract",
        "inside": "Colleagues in the house",
    },
    "one_row": {"yes": "Yes", "no": "No, or I do not know"},
    "formal": {"yes": "Yes", "no": "No"},
}
ADVISE = "Recommend"
ADVICE = "Take {method}"
TAKE_ADVICE = "Plan with it"
OTHERS = "Next best:"
REASONS = {
    "rows_and_counts": (
        "It publishes rows like the private ones and the noisy tables they were made from, so both "
        "counts with intervals and any other work are possible."
    ),
    "few_cells": (
        "All columns together have few cells, so each can be counted by itself: the error is plain "
        "noise, and easy to explain."
    ),
    "many_cells": (
        "The columns together have too many cells to count each; quilt measures the tables that "
        "matter most and answers all other counts from them."
    ),
    "predict_target": (
        "It spends more of the budget on tables with the column that is to be predicted."
    ),
    "no_target": (
        "Mark the column to predict as target in the schema, and the method looks after it."
    ),
    "uncertain_for_numbers": (
        "Each record is published as a region that is also others'; distances and numeric analyses "
        "work on it directly."
    ),
    "no_formal_promise": (
        "Its promise holds against one kind of attacker only, and no ledger can add it up."
    ),
    "who_public": "For anybody, epsilon 1 is a strict and usual choice.",
    "who_partners": (
        "Under a contract, epsilon 2 gives about half the error; the promise needs no contract."
    ),
    "who_inside": "In the house, epsilon 3 is a usual choice; what leaves the house later, leaves.",
    "formal_anyway": "A formal promise costs little here, and needs no guess about attackers.",
    "several_rows": (
        "Your schema protects single rows. If a person may have several, say under Schema by which "
        "column a person is told, and how many rows of each may count."
    ),
    "small_table": (
        "The table is small, so errors are large against the counts; look at the figures below."
    ),
}

# --- rehearse -------------------------------------------------------------------------------------

REHEARSE_LEAD = (
    "Run everything on a stand-in: a table drawn from the schema alone, about nobody. You see the "
    "whole report and how long it takes. It costs nothing, and the private table is not touched. "
    "What it says about errors of noise carries over; what it says about the data does not."
)
STAND_IN_ROWS = "Rows of the stand-in"
PUBLIC_TABLE = "Use a public table of the same shape instead"
PUBLIC_TABLE_PATH = "Its path; it must be public, as nothing is charged"
NOT_THE_PRIVATE_TABLE = "that is the private table; a rehearsal is free and must not read it."
REHEARSE_BUTTON = "Rehearse {method}"
SKIP_REHEARSAL = "Go on to publish"
REHEARSE_COMMAND = "The command that rehearses, and says how far counts are off"
REPORT_OF_REHEARSAL = (
    "Internal. A rehearsal: this report compares a release of a stand-in with that stand-in. The "
    "private table was not read. What is said about errors of noise carries over; what is said "
    "about the data does not."
)
REHEARSALS = "Earlier rehearsals"
REHEARSAL = "Report of rehearsal {name}"
PHASE_DRAFT = "reading the table"
PHASE_STAND_IN = "making the stand-in"

# --- publish --------------------------------------------------------------------------------------

PUBLISH_LEAD = (
    "The charge is recorded first, then the table is read, then the release appears as a whole."
)
CHARGE = "This release costs epsilon"
LEFT_NOW = "Epsilon left now, at least"
LEFT_AFTER = "Epsilon left after it, at least"
CHARGE_STANDS = (
    "Whatever happens after the charge, it stands: a run that fails or is canceled may have shown "
    "something. Only a person can take it back, in the ledger, on record."
)
PURPOSE_LABEL = "Purpose, for the ledger"
PURPOSE_EXAMPLE = "yearly table for the health service"
TYPE_NAME_BEFORE = "Type"
TYPE_NAME_AFTER = "to publish the release of that name"
TYPE_THE_NAME = "the name that was typed is not {name!r}, so nothing was done and nothing charged."
PLAN_CHANGED = (
    "the plan, the schema, the table or the name changed since the page was shown (in another "
    "window?), so nothing was done and nothing charged; look at the page again."
)
TELLS_NOTHING = (
    "This release would be empty: every count would be mostly noise. Forecast: {why} Choose "
    "another plan, or confirm that it is intended; nothing is charged until then."
)
SCHEMA_CHANGED = (
    "The schema was changed since the ledger was started. The ledger pays only for releases about "
    "the same people; another table needs a project of its own."
)
SAME_PEOPLE = "It is about the same people because (goes on record)"
SAME_PEOPLE_EXAMPLE = "the same table; its list of regions was corrected"
SAY_SAME_PEOPLE = (
    "the schema was changed since the ledger was started; say why it is about the same people. "
    "Nothing was done and nothing charged."
)
REASON_TO_GIVE = "REASON"
ENTRY_TO_GIVE = "ENTRY"
ANYWAY = "Publish it all the same"
PUBLISH_BUTTON = "Charge the ledger and publish"
OTHER_NAME = "Name of the release"
USE_NAME = "Change the name"
WHAT_IS_PUBLISHED = "What is published"
THE_TABLE = "Table"
THE_METHOD = "Method"
THE_UNIT = "Protected"
OTHER_PLAN = "Change the plan"

# --- jobs -----------------------------------------------------------------------------------------

JOB_NAMES = {
    "draft": "Drafting a schema",
    "publish": "Publishing",
    "rehearse": "Rehearsing",
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
    "killed": "Ended without a word.",
}
PHASES = {
    "planning": "Planning",
    "charging": "Charging the ledger",
    "counting": "Reading the table, counting, adding noise",
    "writing": "Writing the release",
    "done": "In place",
}
PHASES_LABEL = "What was done"
ELAPSED = "{time} so far."
LEFT_AS_BEFORE = "About {time} left, going by the last run of this kind."
LEFT_AT_THIS_PACE = "About {time} left, going by how far it is."
TOOK = "It took {time}."
ROWS_OUT = "The release has {n} rows."
ROWS_NOT_COUNTED = "The release is complete, but its rows could not be counted ({kind})."
MAY_CLOSE = "You may close this page, or the workbench: the work goes on and is found again."
CANCEL = "Cancel"
CANCEL_STANDS = "A charge that was recorded stands."
JOB_CANCELED = "It was canceled."
KILLED = (
    "The process is gone and said no last word: it was killed, or the machine was. If it was to "
    "publish, look into the ledger; a charge that was recorded stands."
)
DOWNLOAD = "Download the release"
TO_REPORT = "To the report"
TO_PUBLISH = "To publish"
OPEN_REPORT = "Open the report"

# --- report ---------------------------------------------------------------------------------------

REPORT_LEAD = (
    "A release may be handed out, with its statement. A report compares it with the private table: "
    "it is for you alone."
)
LOOK_AS_ANALYST = "Look at it as analysts do"
EVALUATE = "Evaluate (internal)"
TOGETHER = "Dossier and comparison"
DOSSIER = "Write a dossier"
DOSSIER_HINT = (
    "A dossier answers what boards and officers ask, from the statements and the ledger; what no "
    "file says is not stated."
)
COMPARE_BUTTON = "Compare (internal)"
REPORTS = "Reports"
REPORTS_INTERNAL = (
    "Internal. Reports compare with the private table and are not covered by the promise."
)
REPORT_COMMANDS = "The commands that show it to analysts, evaluate, write a dossier and compare"

# --- what screens refuse --------------------------------------------------------------------------

NO_FILE = "no file was sent; choose one."
NO_ENTRY = "there is no such entry."
RELEASE_NAME = "the release's name"
NAME_TAKEN = "there is a release {name!r} already; choose another name."
ROWS_BETWEEN = "rows is {rows!r}; it must be a number from 1 to {most:,}."
NO_REHEARSAL = "there is no report of rehearsal {name!r}."
TICK_TWO = "tick at least two releases to compare."
TICK_SOME = "tick the releases that the dossier is about."
NO_REPORT = "there is no report {name!r}."
NO_LIST = "there is no column {name!r} with a list of values."
NO_SUCH_ACT = "{act!r} is not something to do with a tree."
