# Tests of the package. HUSHTABLE_RELEASE is a release folder of hushtable's sample table; without
# it, or without the hushtable command, nothing runs. Answers go to HUSHTABLE_ANSWERS as JSON.
library(hushtable)

folder <- Sys.getenv("HUSHTABLE_RELEASE")
if (nzchar(folder) && nzchar(Sys.which("hushtable"))) {
  release <- read_release(folder)
  stopifnot(
    inherits(release, "hushtable_release"),
    all(c("age", "sex", "smoker") %in% names(release$columns)),
    length(promise(release)) == 1L,
    any(grepl("age", capture.output(print(release))))
  )

  # Rows have the types of the schema.
  people <- rows(release)
  labeled <- rows(release, labels = TRUE)
  stopifnot(
    is.integer(people$age), is.factor(people$sex),
    identical(levels(people$sex), c("F", "M")),
    identical(levels(labeled$sex), c("female", "male")),
    identical(as.integer(people$sex), as.integer(labeled$sex)),
    identical(attr(people$age, "label"), "Age in years")
  )
  known <- labels(release)
  stopifnot(identical(known$value_label[known$column == "sex"], c("female", "male")))

  # Answers are data frames with intervals.
  answers <- list(
    all = count(release),
    old = count(release, "age >= 65", by = c("sex", "region")),
    population = count(release, "sex = 'F'", scope = "population"),
    mean = mean_by(release, "age", by = "sex"),
    median = quantile_by(release, "age", where = "smoker = 'yes'"),
    share = share_by(release, "smoker = 'yes'", by = "sex", where = "age >= 18"),
    fit = regression(release, age ~ sex + smoker),
    text = regression(release, "age ~ C(sex)", where = "age > 20"),
    sql = query(release, "SELECT sex, avg(age), count(*) FROM release GROUP BY sex")
  )
  for (one in answers) {
    stopifnot(
      inherits(one, "hushtable_answer"), all(one$low <= one$value), all(one$value <= one$high),
      is.character(attr(one, "notes"))
    )
  }
  stopifnot(
    nrow(answers$old) == 10L, identical(answers$old$sex_label[1], "female"),
    identical(answers$fit$term, c("(intercept)", "C(sex)[M]", "C(smoker)[no]")),
    identical(names(answers$sql)[1:3], c("sex", "sex_label", "statistic")),
    nrow(describe(release, "age")) >= 4L,
    any(grepl("95% intervals", capture.output(print(answers$mean)))),
    identical(class(as.data.frame(answers$mean)), "data.frame")
  )

  # A date in SQL starts with a quote, and a condition may start with a minus sign.
  stopifnot(count(release, "-age < -64")$value > 0)

  # Errors of the command become errors in R, with the same message.
  refused <- tryCatch(mean_by(release, "weight"), error = conditionMessage)
  stopifnot(grepl("'weight' is not a published column", refused, fixed = TRUE))
  refused <- tryCatch(regression(release, age ~ sex * smoker), error = conditionMessage)
  stopifnot(grepl("interactions", refused))
  refused <- tryCatch(read_release(tempdir()), error = conditionMessage)
  stopifnot(grepl("no statement.json", refused))

  drawn <- tempfile(fileext = ".pdf")
  grDevices::pdf(drawn)
  plot(answers$mean)
  plot(answers$all)
  plot(answers$fit)
  invisible(grDevices::dev.off())
  stopifnot(file.size(drawn) > 1000)

  out <- Sys.getenv("HUSHTABLE_ANSWERS")
  if (nzchar(out)) {
    plain <- lapply(answers, as.data.frame)
    writeLines(jsonlite::toJSON(plain, dataframe = "columns", digits = NA, na = "null"), out)
  }
}
