//! `slipform stats`: prints success, retries, tokens and durations per agent, backend and model.

use anyhow::Result;
use slipform_api::{StatsQuery, StatsRow};

use crate::arguments::Stats;
use crate::coordinator::Coordinator;
use crate::exit::Exit;
use crate::{backends, output};

/// The column headings. The first [`TEXT_COLUMNS`] columns contain text, the others numbers.
const HEADINGS: [&str; 13] = [
    "agent",
    "backend",
    "model",
    "runs",
    "success",
    "first pass",
    "retries",
    "missing submits",
    "escalations",
    "reported errors",
    "tokens/result",
    "p50",
    "p95",
];

/// The number of left-aligned text columns.
const TEXT_COLUMNS: usize = 3;

type Cells = [String; HEADINGS.len()];

pub(crate) fn run(arguments: &Stats) -> Result<Exit> {
    backends::runtime()?.block_on(async {
        let coordinator = Coordinator::open(arguments.server.as_deref()).await?;
        if let Some(local) = &coordinator.local {
            local.write_analytics().await;
        }
        let rows = coordinator
            .api
            .stats(StatsQuery { agent: arguments.agent.clone(), ..StatsQuery::default() })
            .await?;
        if arguments.json {
            output::data(&serde_json::to_value(&rows)?)?;
            return Ok(Exit::Valid);
        }
        match (&arguments.agent, rows.is_empty()) {
            (_, false) => table(&rows).iter().try_for_each(|line| output::text(line))?,
            (None, true) => {
                output::lines(["no finished runs; start one with `slipform run AGENT -p PROMPT`".to_owned()]);
            }
            (Some(agent), true) => output::lines([format!(
                "no finished runs of agent `{agent}`; run `slipform stats` to see all agents"
            )]),
        }
        Ok(Exit::Valid)
    })
}

/// Formats the rows as aligned columns, with a total for each agent that has several rows.
fn table(rows: &[StatsRow]) -> Vec<String> {
    let mut lines = vec![HEADINGS.map(str::to_owned)];
    for of_agent in rows.chunk_by(|one, next| one.agent_name == next.agent_name) {
        lines.extend(of_agent.iter().map(|row| cells(row, row.backend.as_deref().unwrap_or("-"))));
        if of_agent.len() > 1 {
            lines.push(cells(&total(of_agent), "total"));
        }
    }
    let width = |column: usize| lines.iter().map(|cells| cells[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..HEADINGS.len()).map(width).collect();
    lines.iter().map(|cells| aligned(cells, &widths)).collect()
}

fn aligned(cells: &Cells, widths: &[usize]) -> String {
    let pad = |(column, (cell, &width)): (usize, (&String, &usize))| {
        if column < TEXT_COLUMNS { format!("{cell:width$}") } else { format!("{cell:>width$}") }
    };
    cells.iter().zip(widths).enumerate().map(pad).collect::<Vec<_>>().join("  ")
}

fn cells(row: &StatsRow, backend: &str) -> Cells {
    [
        row.agent_name.clone(),
        backend.to_owned(),
        row.model.clone().unwrap_or_else(nothing),
        row.runs.to_string(),
        percent(Some(row.success_rate)),
        percent(row.first_pass_rate),
        row.retries.to_string(),
        row.missing_submits.to_string(),
        row.escalations.to_string(),
        row.reported_errors.to_string(),
        row.tokens_per_valid_result.map_or_else(nothing, |tokens| format!("{tokens:.0}")),
        row.p50_ms.map_or_else(nothing, duration),
        row.p95_ms.map_or_else(nothing, duration),
    ]
}

/// Sums the rows of an agent. The total has no percentiles, because percentiles cannot be added.
fn total(rows: &[StatsRow]) -> StatsRow {
    let sum = |of: fn(&StatsRow) -> i64| rows.iter().map(of).sum::<i64>();
    let (runs, completed, first_pass) =
        (sum(|row| row.runs), sum(|row| row.completed), sum(|row| row.first_pass));
    let tokens = sum(|row| row.tokens);
    let share = |part: i64, whole: i64| (whole > 0).then(|| part as f64 / whole as f64);
    StatsRow {
        agent_name: rows.first().map(|row| row.agent_name.clone()).unwrap_or_default(),
        backend: None,
        model: None,
        runs,
        completed,
        reported_errors: sum(|row| row.reported_errors),
        success_rate: share(completed, runs).unwrap_or_default(),
        first_pass,
        first_pass_rate: share(first_pass, completed),
        retries: sum(|row| row.retries),
        missing_submits: sum(|row| row.missing_submits),
        escalations: sum(|row| row.escalations),
        tokens,
        tokens_per_valid_result: share(tokens, completed),
        p50_ms: None,
        p95_ms: None,
    }
}

fn nothing() -> String {
    "-".to_owned()
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(nothing, |share| format!("{:.1} %", share * 100.0))
}

fn duration(milliseconds: i64) -> String {
    match milliseconds {
        ..1_000 => format!("{milliseconds} ms"),
        1_000..60_000 => format!("{:.1} s", milliseconds as f64 / 1_000.0),
        _ => format!("{} min {:02} s", milliseconds / 60_000, milliseconds / 1_000 % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(agent: &str, backend: Option<&str>, numbers: [i64; 4], p50_ms: Option<i64>) -> StatsRow {
        let [runs, completed, first_pass, tokens] = numbers;
        let share = |part: i64, whole: i64| (whole > 0).then(|| part as f64 / whole as f64);
        StatsRow {
            agent_name: agent.to_owned(),
            backend: backend.map(str::to_owned),
            model: backend.map(|_| "m".to_owned()),
            runs,
            completed,
            reported_errors: 2,
            success_rate: share(completed, runs).unwrap_or_default(),
            first_pass,
            first_pass_rate: share(first_pass, completed),
            retries: 3,
            missing_submits: 1,
            escalations: 0,
            tokens,
            tokens_per_valid_result: share(tokens, completed),
            p50_ms,
            p95_ms: p50_ms.map(|shorter| shorter * 60),
        }
    }

    #[test]
    fn table_is_aligned_and_totals_agents_with_several_backends() {
        let rows = [
            row("reviewer", None, [2, 0, 0, 0], None),
            row("reviewer", Some("lmstudio"), [8, 6, 3, 6_000], Some(999)),
            row("writer", Some("claude"), [1, 1, 1, 55], Some(2_000)),
        ];
        assert_eq!(
            table(&rows),
            [
                "agent     backend   model  runs  success  first pass  retries  missing submits  escalations  reported errors  tokens/result     p50         p95",
                "reviewer  -         -         2    0.0 %           -        3                1            0                2              -       -           -",
                "reviewer  lmstudio  m         8   75.0 %      50.0 %        3                1            0                2           1000  999 ms      59.9 s",
                "reviewer  total     -        10   60.0 %      50.0 %        6                2            0                4           1000       -           -",
                "writer    claude    m         1  100.0 %     100.0 %        3                1            0                2             55   2.0 s  2 min 00 s",
            ]
        );
    }
}
