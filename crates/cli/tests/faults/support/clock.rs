//! The time of day of a process, which a test sets.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The variable with the file that [`PRELOADED`] reads.
const VARIABLE: &str = "SLIPFORM_TEST_CLOCK";

/// A library that adds the seconds in a file to the time of day. Elapsed time is not changed.
const PRELOADED: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long seconds(void) {
    static int file = -1;
    char text[32] = {0};
    if (file < 0) {
        const char *path = getenv("SLIPFORM_TEST_CLOCK");
        file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    }
    return file >= 0 && pread(file, text, sizeof text - 1, 0) > 0 ? atol(text) : 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
    static int (*real)(clockid_t, struct timespec *);
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int status = real(clock, time);
    if (status == 0 && clock == CLOCK_REALTIME) time->tv_sec += seconds();
    return status;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    static int (*real)(struct timeval *, void *);
    if (!real) real = dlsym(RTLD_NEXT, "gettimeofday");
    int status = real(time, zone);
    if (status == 0) time->tv_sec += seconds();
    return status;
}
"#;

/// A time of day that is ahead of the machine's by a number of seconds.
pub(crate) struct TestClock {
    library: PathBuf,
    file: PathBuf,
}

impl TestClock {
    /// Builds the library; `None`, with a printed notice, without a C compiler.
    pub(crate) fn build(name: &str) -> Option<TestClock> {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("clock-{name}"));
        fs::create_dir_all(&folder).unwrap();
        let (source, library) = (folder.join("clock.c"), folder.join("clock.so"));
        fs::write(&source, PRELOADED).unwrap();
        let built = Command::new("cc")
            .args(["-shared", "-fPIC", "-o"])
            .args([&library, &source])
            .arg("-ldl")
            .status();
        if !built.is_ok_and(|status| status.success()) {
            println!("SKIPPED: no C compiler for a library that sets the clock");
            return None;
        }
        let clock = TestClock { library, file: folder.join("seconds") };
        clock.set(0);
        Some(clock)
    }

    /// Sets how many seconds the time of day is ahead.
    pub(crate) fn set(&self, seconds: i64) {
        // The padding keeps the length, so that a reader never sees an empty file.
        let mut file =
            fs::OpenOptions::new().write(true).create(true).truncate(false).open(&self.file).unwrap();
        file.write_all(format!("{seconds:<20}").as_bytes()).unwrap();
    }

    /// Returns the variables of a process that has this time.
    pub(crate) fn variables(&self) -> Vec<(String, String)> {
        let text = |path: &Path| path.to_str().unwrap().to_owned();
        vec![("LD_PRELOAD".to_owned(), text(&self.library)), (VARIABLE.to_owned(), text(&self.file))]
    }
}
