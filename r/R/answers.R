#' Count rows
#'
#' Estimates how many rows of the private table satisfy a condition.
#'
#' @param release A release, from [read_release()].
#' @param where A condition in SQL, such as `"age >= 65 AND region = 'north'"`. By default, all rows.
#' @param by Names of columns; each combination of their values is answered.
#' @param scope `"people"` for the people in the table (error from noise and model), or
#'   `"population"` for the population that they were sampled from (sampling error as well).
#' @return A data frame of class `hushtable_answer` with one row per group: the columns of `by` (and
#'   their labels), `value`, the ends `low` and `high` of the 95% interval, standard deviations by
#'   source (`NA` if there is none), `support` and `what`. The attribute `notes` states what to
#'   know about the answer.
#' @examples
#' \dontrun{
#' release <- read_release("survey")
#' count(release, "age >= 65", by = "region")
#' plot(count(release, by = "region"))
#' }
#' @export
count <- function(release, where = NULL, by = NULL, scope = c("people", "population")) {
  if (is.null(where) && is.null(by)) where <- "TRUE"
  ask(release, NULL, where, by, scope)
}

#' Means, medians and quantiles
#'
#' Missing values are left out.
#'
#' @inheritParams count
#' @param column Name of a numeric, date or time column.
#' @param probability From 0 to 1; 0.5 is the median.
#' @return As for [count()]. Dates and times are also returned as text, in `written`, `written_low`
#'   and `written_high`.
#' @export
mean_by <- function(release, column, by = NULL, where = NULL, scope = c("people", "population")) {
  ask(release, c("--mean", column), where, by, scope)
}

#' @rdname mean_by
#' @export
quantile_by <- function(release, column, probability = 0.5, by = NULL, where = NULL,
                        scope = c("people", "population")) {
  asked <- paste0(column, ":", format(probability, digits = 15, scientific = FALSE))
  ask(release, c("--quantile", asked), where, by, scope)
}

#' Shares of rows
#'
#' @inheritParams count
#' @param condition A condition in SQL, whose share is estimated.
#' @return As for [count()].
#' @export
share_by <- function(release, condition, by = NULL, where = NULL,
                     scope = c("people", "population")) {
  ask(release, c("--share", condition), where, by, scope)
}

#' Linear and logistic regression
#'
#' Coefficients come from the noisy tables of the release where these determine the fit, so noise in
#' the synthetic rows does not attenuate them.
#'
#' @inheritParams count
#' @param formula A formula, such as `pay ~ age + region`. Listed columns enter as categories; their
#'   first value is the reference. Transformations and interactions are not supported.
#' @param logistic If `TRUE`, fit the log odds of the second value of an outcome with two values.
#' @return As for [count()], with one row per `term`.
#' @export
regression <- function(release, formula, where = NULL, logistic = FALSE,
                       scope = c("people", "population")) {
  if (inherits(formula, "formula")) {
    terms <- stats::terms(formula)
    if (any(attr(terms, "order") > 1)) {
      stop("interactions are not supported; write a sum of columns.", call. = FALSE)
    }
    formula <- paste(
      deparse1(formula[[2]], backtick = FALSE), "~",
      paste(vapply(attr(terms, "term.labels"), term, "", release$columns), collapse = " + ")
    )
  }
  ask(release, c("--regress", formula, if (logistic) "--logistic"), where, NULL, scope)
}

term <- function(name, columns) {
  plain <- gsub("`", "", name)
  lists <- isTRUE(columns[[plain]][["type"]] %in% c("categorical", "boolean"))
  if (lists) paste0("C(", plain, ")") else sub("^factor\\(", "C(", plain)
}

#' Answer a SQL query
#'
#' @inheritParams count
#' @param query `SELECT` of columns and of `count(*)`, `avg`, `sum`, `median`, `var_pop`, `corr` or
#'   `quantile_disc`, `FROM release`, with `WHERE` and `GROUP BY`.
#' @return As for [count()]. With several aggregates, the column `statistic` names them.
#' @export
query <- function(release, query) {
  answer(run(c("query", release$folder, "--sql", query, "--json")))
}

#' Describe columns
#'
#' @inheritParams count
#' @param columns Names of columns; by default, all.
#' @return A data frame with one row per statistic: mean and quartiles of numbers, and counts of the
#'   most frequent values of other columns, with 95% intervals.
#' @export
describe <- function(release, columns = NULL) {
  bound(run(c("describe", release$folder, columns, "--json")))
}

ask <- function(release, asked, where, by, scope) {
  scope <- match.arg(scope, c("people", "population"))
  grouped <- unlist(lapply(by, function(name) c("--by", name)))
  wide <- if (scope == "population") "--population"
  condition <- if (!is.null(where)) c("--", where)
  answer(run(c("query", release$folder, asked, grouped, wide, "--json", condition)))
}

# Run the command; stop with its message if it fails.
run <- function(arguments) {
  command <- getOption("hushtable.command", Sys.which("hushtable")[[1]])
  if (!nzchar(command)) {
    stop(
      "the hushtable command is not on the PATH: run pip install hushtable, or set ",
      "options(hushtable.command = \"/path/to/hushtable\").",
      call. = FALSE
    )
  }
  errors <- tempfile()
  on.exit(unlink(errors))
  # R's own library path would make Python load other versions of its libraries.
  environment <- if (.Platform$OS.type == "unix") "LD_LIBRARY_PATH=" else character()
  out <- suppressWarnings(
    system2(command, shQuote(enc2utf8(arguments)), TRUE, errors, env = environment)
  )
  if (!is.null(attr(out, "status"))) {
    said <- readLines(errors, encoding = "UTF-8", warn = FALSE)
    stop(paste(sub("^hushtable: ", "", said), collapse = "\n"), call. = FALSE)
  }
  Encoding(out) <- "UTF-8"
  jsonlite::fromJSON(out, simplifyVector = FALSE)
}

answer <- function(found) {
  if (!is.null(names(found))) found <- list(found)
  notes <- unique(unlist(lapply(found, `[[`, "notes")))
  flat <- lapply(found, function(one) {
    written <- one$written
    one[c("notes", "written", "moment")] <- NULL
    if (is.null(written)) return(one)
    c(one, written = written$value, written_low = written$low, written_high = written$high)
  })
  made <- bound(flat)
  last <- intersect(
    c("value", "low", "high", "std", "privacy_std", "model_std", "sampling_std", "scope",
      "support", "what", "written", "written_low", "written_high"), names(made)
  )
  made <- made[c(setdiff(names(made), last), last)]
  structure(made, notes = as.character(notes), class = c("hushtable_answer", "data.frame"))
}

# Combine records into a data frame; null becomes NA.
bound <- function(records) {
  names <- unique(unlist(lapply(records, names)))
  columns <- lapply(names, function(name) {
    values <- lapply(records, function(one) if (is.null(one[[name]])) NA else one[[name]])
    unlist(values)
  })
  data.frame(stats::setNames(columns, names), check.names = FALSE, stringsAsFactors = FALSE)
}

groups_of <- function(answer) {
  figures <- c("value", "low", "high", "std", "privacy_std", "model_std", "sampling_std", "scope",
               "support", "what", "written", "written_low", "written_high")
  setdiff(names(answer), figures)
}

# Two significant digits of the width of an interval; counts have no decimals.
rounded <- function(answer) {
  if (!is.null(answer[["written"]])) {
    return(answer[c("written", "written_low", "written_high")])
  }
  width <- answer$high - answer$low
  counted <- answer$what %in% c("rows", "people", "distinct tuples", "nodes")
  digits <- ifelse(is.finite(width) & width > 0, pmax(0, 1 - floor(log10(width))), 0)
  digits[counted] <- 0
  shown <- lapply(answer[c("value", "low", "high")], function(numbers) {
    texts <- mapply(formatC, numbers, digits = pmin(digits, 12),
                    MoreArgs = list(format = "f", big.mark = ","))
    trimws(ifelse(is.na(numbers), "-", texts))
  })
  as.data.frame(shown, stringsAsFactors = FALSE)
}

#' @export
print.hushtable_answer <- function(x, ...) {
  if (all(c("value", "low", "high", "what") %in% names(x))) {
    what <- unique(x$what)
    shown <- cbind(as.data.frame(x)[groups_of(x)], rounded(x))
    names(shown)[ncol(shown) - 2:0] <- c(if (length(what) == 1) what else "value", "low", "high")
    print(shown, row.names = FALSE, right = TRUE)
    cat("95% intervals.\n")
  } else {
    print(as.data.frame(x), ...)
  }
  for (note in attr(x, "notes")) writeLines(strwrap(note, 88, indent = 2, exdent = 4))
  invisible(x)
}

#' @export
as.data.frame.hushtable_answer <- function(x, ...) {
  attr(x, "notes") <- NULL
  class(x) <- "data.frame"
  x
}

#' Plot an answer with its intervals
#'
#' @param x An answer, such as that of [count()].
#' @param ... Passed on to [graphics::plot.default()].
#' @return `x`, invisibly.
#' @export
plot.hushtable_answer <- function(x, ...) {
  groups <- groups_of(x)
  labeled <- intersect(paste0(groups, "_label"), groups)
  keys <- as.data.frame(x)[setdiff(groups, sub("_label$", "", labeled))]
  names <- if (length(keys)) do.call(paste, c(unname(keys), sep = ", ")) else unique(x$what)
  place <- rev(seq_len(nrow(x)))
  ends <- range(x$value, x$low, x$high, finite = TRUE)
  old <- graphics::par(mar = c(4, 2 + min(max(nchar(names)), 40) / 2, 2, 1))
  on.exit(graphics::par(old))
  graphics::plot.default(
    x$value, place,
    xlim = ends, ylim = c(0.5, nrow(x) + 0.5), pch = 19, yaxt = "n", ylab = "",
    xlab = paste0(unique(x$what)[1], ", with 95% intervals"), ...
  )
  graphics::segments(pmax(x$low, ends[1]), place, pmin(x$high, ends[2]), place)
  graphics::axis(2, place, substr(names, 1, 40), las = 1, tick = FALSE)
  invisible(x)
}
