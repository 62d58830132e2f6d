//! Formats that fsarena recognises but does not read; the error names the format and what to do instead.

/// A format that fsarena recognises but does not read.
struct ForeignFormat {
    /// The name of the format, and what to do instead.
    name_and_remedy: &'static str,
    /// Whether a text is in this format.
    matches: fn(&str) -> bool,
}

/// The error for a text in one of these formats; `None` for any other text.
pub fn refusal(text: &str) -> Option<String> {
    let found = FORMATS.iter().find(|format| (format.matches)(text))?;
    Some(format!("fsarena does not read {}", found.name_and_remedy))
}

const FORMATS: [ForeignFormat; 16] = [
    ForeignFormat {
        name_and_remedy: "the CSV summary of IOR before 4.0, which has no results: use its text or `-O summaryFormat=JSON`",
        matches: |text| text.contains("summaryFormat=CSV"),
    },
    ForeignFormat {
        name_and_remedy: "fio's terse output: run fio with --output-format=json",
        matches: |text| {
            first_lines(text).any(|line| line.split(';').nth(1).is_some_and(|word| word.starts_with("fio-")))
        },
    },
    ForeignFormat {
        name_and_remedy: "fio's normal output: run fio with --output-format=json",
        matches: |text| {
            any_line(text, |line| line.contains(": (g=") && line.contains("rw="))
                || any_line(text, |line| line.starts_with("Run status group"))
        },
    },
    ForeignFormat {
        name_and_remedy: "pgbench: write its figures into a CSV file, or use `fsarena run postgres`",
        matches: |text| {
            any_line(text, |line| {
                line.starts_with("pgbench (")
                    || line.starts_with("transaction type: ")
                    || line.starts_with("tps = ")
            })
        },
    },
    ForeignFormat {
        name_and_remedy: "bonnie++: write its figures into a CSV file with a head",
        matches: |text| {
            any_line(text, |line| {
                line.contains("------Sequential Output------") || line.starts_with("name,file_size,putc,")
            }) || first_lines(text).any(is_bonnie_row)
        },
    },
    ForeignFormat {
        name_and_remedy: "iozone: write its figures into a CSV file",
        matches: |text| {
            any_line(text, |line| {
                line.contains("Iozone: Performance Test of File I/O")
                    || line.trim() == "iozone test complete."
            })
        },
    },
    ForeignFormat {
        name_and_remedy: "elbencho: write its figures into a CSV file with columns that fsarena can pair, such as `round,name,mib_per_s`",
        matches: |text| {
            any_line(text, |line| line.starts_with("OPERATION") && line.contains("RESULT TYPE"))
                || first_lines(text).any(|line| line.starts_with("ISO DATE,LABEL,"))
        },
    },
    ForeignFormat {
        name_and_remedy: "Rust's libtest benchmarks: write their figures into a CSV file, or in the text format of Go benchmarks",
        matches: |text| {
            any_line(text, |line| {
                (line.starts_with("test ") && line.contains(" bench: ") && line.contains("ns/iter"))
                    || line.starts_with("test result: ")
                    || line.starts_with("{ \"type\": \"suite\", \"event\": ")
            })
        },
    },
    ForeignFormat {
        name_and_remedy: "`go test -json`: run `go test -bench` without -json",
        matches: |text| {
            first_lines(text).any(|line| {
                line.starts_with('{') && line.contains("\"Action\":\"") && line.contains("\"Package\":")
            })
        },
    },
    ForeignFormat {
        name_and_remedy: "Google Benchmark's JSON: write its figures into a CSV file",
        matches: |text| {
            text.trim_start().starts_with('{')
                && text.contains("\"benchmarks\"")
                && text.contains("\"real_time\"")
        },
    },
    ForeignFormat {
        name_and_remedy: "filebench: write its figures into a CSV file",
        matches: |text| any_line(text, |line| line.contains("IO Summary:") && line.contains("ops/s")),
    },
    ForeignFormat {
        name_and_remedy: "vdbench: write its figures into a CSV file",
        matches: |text| any_line(text, |line| line.contains("Vdbench distribution:")),
    },
    ForeignFormat {
        name_and_remedy: "md-workbench: write its figures into a CSV file",
        matches: |text| any_line(text, |line| line.starts_with("MD-Workbench total objects:")),
    },
    ForeignFormat {
        name_and_remedy: "JSON reports of fsarena, which have no samples: export the run with `fsarena report RUN --export csv=FILE`",
        matches: |text| {
            text.trim_start().starts_with('{')
                && text.contains("\"fsarena\"")
                && text.contains("\"analyses\"")
        },
    },
    ForeignFormat {
        name_and_remedy: "XML, such as JUnit reports, which has no samples; for a run of fsarena use `fsarena report RUN --export csv=FILE`",
        matches: |text| starts_with(text, "<?xml") || starts_with(text, "<svg"),
    },
    ForeignFormat {
        name_and_remedy: "HTML pages, which have no samples; for a run of fsarena use `fsarena report RUN --export csv=FILE`",
        matches: |text| starts_with(text, "<!doctype html") || starts_with(text, "<html"),
    },
];

/// The first 20 lines that are not empty, which suffice to recognise a table.
fn first_lines(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim_end).filter(|line| !line.is_empty()).take(20)
}

/// Whether `matches` is true for a line of the text.
fn any_line(text: &str, matches: impl Fn(&str) -> bool) -> bool {
    text.lines().any(matches)
}

/// Whether a text begins with `prefix`, ignoring white space before it and upper or lower case.
fn starts_with(text: &str, prefix: &str) -> bool {
    text.trim_start().get(..prefix.len()).is_some_and(|head| head.eq_ignore_ascii_case(prefix))
}

/// Whether a line is a row of bonnie++'s CSV, which begins with the versions of the format and of the program:
/// `1.98,1.98,host,1,…`.
fn is_bonnie_row(line: &str) -> bool {
    let mut fields = line.split(',');
    let is_version = |field: Option<&str>| {
        field.is_some_and(|field| {
            ["1.9", "2.0"].iter().any(|known| field.starts_with(known)) && field.len() <= 5
        })
    };
    is_version(fields.next()) && is_version(fields.next()) && fields.count() > 20
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    #[test]
    fn formats_that_fsarena_does_not_read_are_refused_by_name() {
        let bonnie = format!("1.98,1.98,host,1,{}\n", vec!["7"; 40].join(","));
        for (text, name) in [
            ("3;fio-3.33;job;0;0;100;10;2\n", "fio's terse output"),
            ("job: (g=0): rw=randread, bs=(R) 4096B\nfio-3.33\n", "fio's normal output"),
            ("pgbench (15.3)\ntransaction type: <builtin: TPC-B>\ntps = 85.1 (without x)\n", "pgbench"),
            (&bonnie, "bonnie++"),
            ("Version  1.98  ------Sequential Output------ --Sequential Input-\n", "bonnie++"),
            ("\tIozone: Performance Test of File I/O\n", "iozone"),
            ("OPERATION   RESULT TYPE        FIRST DONE   LAST DONE\n", "elbencho"),
            ("ISO DATE,LABEL,PATH TYPE,1\n", "elbencho"),
            ("running 1 test\ntest a ... bench:       1,234 ns/iter (+/- 56)\n", "libtest"),
            (
                "{\"Time\":\"x\",\"Action\":\"output\",\"Package\":\"a\",\"Output\":\"x\"}\n",
                "`go test -json`",
            ),
            ("<!DOCTYPE html><p>1,2", "HTML"),
            ("<?xml version=\"1.0\"?><testsuites/>", "XML"),
        ] {
            let error = parse("a", text.as_bytes(), None).unwrap_err().to_string();
            assert!(error.starts_with("a: fsarena does not read") && error.contains(name), "{error}");
        }
    }
}
