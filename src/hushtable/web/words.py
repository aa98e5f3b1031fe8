"""Every English sentence of the pages, in one place."""

# --- security -------------------------------------------------------------------------------------

INTERNAL_ERROR = (
    "Internal error ({kind}). What it said is withheld, since it may quote private values."
)
FOREIGN_HOST = (
    "This address is not the workbench's. Open the address that the terminal printed; behind "
    "another name the workbench answers nobody."
)
METHOD_NOT_ALLOWED = "This cannot be done here."
WRONG_TOKEN = "The token is wrong. Open the address that the terminal printed last."  # noqa: S105
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
INTERVALS_95 = "Estimated number of rows, with 95 % intervals"
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
ASK_LEAD = "How many rows are there of a kind? Open a column, choose, and the answer follows."
FROM = "from"
TO = "to"
MISSING = "missing"
GROUP_BY = "Group by"
AND_BY = "and by"
NOTHING = "nothing"
CLAUSE = "And also (a SQL WHERE clause, if you like)"
CLAUSE_EXAMPLE = "age < 18 OR age >= 65"
ASK_BUTTON = "Ask"
CLEAR = "Start over"
BETWEEN = "rows, and with 95 % confidence {low} to {high}"
ROWS_WHERE = "where"
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
