#' Open a release
#'
#' @param folder Folder of the release, which contains `statement.json`.
#' @return An object of class `hushtable_release`. Printing it shows the promise and the columns.
#' @examples
#' \dontrun{
#' release <- read_release("survey")
#' release
#' }
#' @export
read_release <- function(folder) {
  file <- file.path(folder, "statement.json")
  if (!file.exists(file)) {
    stop(sprintf("'%s' is not a release: it has no statement.json.", folder), call. = FALSE)
  }
  statement <- jsonlite::fromJSON(file, simplifyVector = FALSE)
  if (!identical(as.integer(statement[["format"]]), 2L)) {
    stop(sprintf(
      "the statement of '%s' has format %s; this package reads only format 2.",
      folder, format(statement[["format"]])
    ), call. = FALSE)
  }
  published <- Filter(function(column) !is.null(column[["type"]]), statement[["schema"]][["columns"]])
  structure(
    list(folder = folder, statement = statement, columns = published),
    class = "hushtable_release"
  )
}

#' The promise of a release
#'
#' @param release A release, from [read_release()].
#' @return A character vector: each promise in words.
#' @export
promise <- function(release) {
  lines <- readLines(file.path(release$folder, "STATEMENT.md"), encoding = "UTF-8", warn = FALSE)
  first <- match("## The promise", lines) + 1L
  last <- first + match(TRUE, startsWith(lines[-seq_len(first)], "## ")) - 1L
  sub("^- ", "", grep("^- ", lines[first:last], value = TRUE))
}

#' @export
print.hushtable_release <- function(x, ...) {
  cat(sprintf("Release '%s' in %s\n", x$statement[["schema"]][["name"]], x$folder))
  if (identical(x$statement[["guarantee"]], "none (seeded)")) {
    cat("  NOT PRIVATE: its noise came from a seed. Use it for tests only.\n")
  }
  texts <- c(
    paste("published with", x$statement[["method"]]), promise(x),
    paste("columns:", paste(names(x$columns), collapse = ", ")),
    "ask: count(release, by = \"column\"), mean_by(), quantile_by(), regression(), rows()"
  )
  writeLines(strwrap(texts, 88, indent = 2, exdent = 4))
  invisible(x)
}

#' Labels of columns and values
#'
#' @param object A release, from [read_release()].
#' @param ... Not used.
#' @return A data frame with one row for each listed or special value, and one for each other
#'   column: `column`, `label`, `type`, `value` and `value_label`.
#' @export
labels.hushtable_release <- function(object, ...) {
  parts <- lapply(names(object$columns), function(name) {
    column <- object$columns[[name]]
    values <- c(unlist(column[["values"]]), unlist(column[["special"]], use.names = FALSE))
    if (is.null(values)) values <- NA_character_
    data.frame(
      column = name, label = or_empty(column[["label"]]), type = column[["type"]],
      value = as.character(values), value_label = labels_of(column, values),
      stringsAsFactors = FALSE
    )
  })
  do.call(rbind, parts)
}

#' Synthetic rows of a release
#'
#' Do not fit models to these rows as if they were people: correlations are weaker than in the
#' original, and intervals of other tools do not allow for the noise. Use [regression()] instead.
#'
#' @param release A release, from [read_release()].
#' @param labels If `TRUE`, levels of factors are the labels of values instead of the values.
#' @return A data frame. Listed values are factors, truth values are logical, dates and timestamps
#'   are `Date` and `POSIXct` (UTC). Special values of numbers (such as 999 for "never") are `NA`.
#'   The attribute `label` of a column is its label.
#' @export
rows <- function(release, labels = FALSE) {
  out <- tempfile(fileext = ".csv")
  seeded <- identical(release$statement[["guarantee"]], "none (seeded)")
  if (seeded) out <- file.path(dirname(out), paste0("seeded-", basename(out)))
  on.exit(unlink(out))
  run(c("export", release$folder, "--out", out, "--json"))
  found <- utils::read.csv(
    out,
    colClasses = "character", na.strings = "", check.names = FALSE, encoding = "UTF-8"
  )
  names(found) <- unquoted(names(found))
  for (name in intersect(names(found), names(release$columns))) {
    found[[name]] <- converted(unquoted(found[[name]]), release$columns[[name]], labels)
  }
  found
}

# The export puts a quote before texts that a spreadsheet would run as a formula.
unquoted <- function(texts) sub("^'(?=\\s*[-=+@])", "", texts, perl = TRUE)

converted <- function(texts, column, labels) {
  values <- switch(column[["type"]],
    categorical = listed(texts, column, labels),
    boolean = texts == "true",
    date = if (all(grepl("^\\d{4}-\\d\\d-\\d\\d$", stats::na.omit(texts)))) as.Date(texts) else texts,
    timestamp = moments(texts),
    time = texts,
    numbers(texts, column)
  )
  if (!is.null(column[["label"]])) attr(values, "label") <- column[["label"]]
  values
}

listed <- function(texts, column, labels) {
  levels <- as.character(unlist(column[["values"]]))
  levels <- c(levels, sort(setdiff(unique(texts), c(levels, NA)))) # generalized values
  names <- if (labels) labels_of(column, levels) else levels
  factor(texts, levels, make.unique(ifelse(is.na(names), levels, names), sep = " "))
}

moments <- function(texts) {
  found <- as.POSIXct(texts, tz = "UTC", optional = TRUE)
  if (any(is.na(found) & !is.na(texts))) texts else found
}

numbers <- function(texts, column) {
  values <- suppressWarnings(as.numeric(texts))
  if (any(is.na(values) & !is.na(texts))) {
    return(factor(texts)) # generalized values, such as "18 to 64"
  }
  values[values %in% as.numeric(names(column[["special"]]))] <- NA
  if (column[["type"]] == "integer" && max(abs(values), 0, na.rm = TRUE) < 2^31) as.integer(values) else values
}

labels_of <- function(column, values) {
  found <- unlist(column[["labels"]])[as.character(values)]
  if (is.null(found)) rep(NA_character_, length(values)) else unname(found)
}

or_empty <- function(text) if (is.null(text)) "" else text
