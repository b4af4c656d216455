"""Prints the tables: figures, streams, and targets."""

from dataclasses import dataclass

from measures import SEGMENT_REQUESTS, Endurance, Row, Streaming, median

TENSORZERO_RATIO_MIN = 1.5
LITELLM_RATIO_MIN = 60
CPU_US_MAX = 150
ADDED_P50_MS_MAX = 0.25
P99_MS_MAX = 2
FIRST_TOKEN_MS_MAX = 1
STREAMS_MIB_MAX = 100
# The share by which memory may grow between the first 20,000 requests and the last.
GROWTH_MAX = 0.1


@dataclass
class Results:
    rows: list[Row]
    streaming: dict[str, Streaming]
    memory: list[tuple[int, float]]
    endurance: Endurance | None

    def row(self, name: str, kind: str) -> Row | None:
        return next((row for row in self.rows if (row.name, row.kind) == (name, kind) and row.rates), None)

    def added_p50(self, row: Row) -> float | None:
        direct = self.row("direct", "stream" if row.is_stream else "plain")
        if row.name == "direct" or not row.p50_ms or not direct or not direct.p50_ms:
            return None
        return median(row.p50_ms) - median(direct.p50_ms)

    def added_first_token(self, name: str) -> float | None:
        own, direct = (self.streaming.get(one, Streaming()).first_token_ms for one in (name, "direct"))
        return median(own) - median(direct) if own and direct and name != "direct" else None


def shown(value: float | None, digits: int = 0, unit: str = "") -> str:
    return "" if value is None else f"{value:,.{digits}f}{unit}"


def spread(values: list[float]) -> str:
    """Returns the median, and the range of several rounds."""
    if not values:
        return ""
    extent = f" ({min(values):,.0f}–{max(values):,.0f})" if len(values) > 1 else ""
    return f"{median(values):,.0f}{extent}"


def table(header: list[str], lines: list[list[str]]) -> str:
    rule = ["---"] * len(header)
    return "\n".join(f"| {' | '.join(line)} |" for line in [header, rule, *lines])


def figures(results: Results) -> str:
    lines = []
    for row in results.rows:
        if not row.rates:
            continue
        core = median(row.rates) * median(row.cpu_us) / 1e6 if row.cpu_us else None
        lines.append([
            row.label, spread(row.rates), spread(row.cpu_us), shown(core and core * 100, 0, " %"),
            shown(median(row.p50_ms), 3), shown(results.added_p50(row), 3), shown(median(row.p99_ms), 2),
            shown(row.half_shares and median(row.half_shares) * 100 or None, 0, " %"),
        ])
    header = ["contestant", "requests/s", "CPU per request, µs", "of a core", "p50, ms", "p50 added, ms"]
    header += ["p99 at half load, ms", "load"]
    return table(header, lines) + interference(results)


def interference(results: Results) -> str:
    """Says how much of the contestants' core other programs used: they lower requests/s and raise latencies."""
    others = [share * 100 for row in results.rows for share in row.others]
    if not others:
        return ""
    return f"\n\nOther programs used {median(others):.0f} % of the contestants' core (at most {max(others):.0f} %)."


def streaming(results: Results) -> str:
    lines = []
    for name, one in results.streaming.items():
        first, added = median(one.first_token_ms), results.added_first_token(name)
        lines.append([name, shown(first, 2), shown(added, 2), shown(one.idle_mib), shown(one.busy_mib)])
    return table(["contestant", "first token, ms", "added, ms", "memory before, MiB", "memory at 256 streams, MiB"], lines)


def endurance(one: Endurance) -> str:
    held = one.held
    lines = [
        f"{one.count:,} streams for {one.minutes:g} min: {held.completed:,} responses with {held.tokens:,} tokens complete, "
        f"{held.failures.total():,} failed; memory up to {max(held.samples, default=0):,.0f} MiB; "
        f"descriptors {one.descriptors_before} before, {one.descriptors_after} after"
    ]
    lines += [f"- {count} × {failure}" for failure, count in held.failures.most_common(5)]
    return "\n".join(lines)


def failures(results: Results) -> list[str]:
    """Returns what went wrong in the measurements of rows and of streams for memory."""
    found = [f"{row.name}, {row.kind}: {failure}" for row in results.rows for failure in row.failures]
    for name, one in results.streaming.items():
        found += [f"{name}, streams: {count} × {failure}" for failure, count in one.failures.most_common(3)]
    return found


def verdict(name: str, limit: str, value: str, is_met: bool) -> list[str]:
    return [name, limit, value, "met" if is_met else "**missed**"]


def targets(results: Results) -> str:
    """Compares the row with a contract, validated and recorded, with the targets."""
    lines = ratios(results)
    own = results.row("slipform", "contract")
    if own:
        cpu, added, p99 = median(own.cpu_us), results.added_p50(own), median(own.p99_ms)
        lines.append(verdict("CPU per request", f"≤ {CPU_US_MAX} µs", f"{cpu:.0f} µs", cpu <= CPU_US_MAX))
        if added is not None:
            is_met = added <= ADDED_P50_MS_MAX
            lines.append(verdict("p50 added at 1 connection", f"≤ {ADDED_P50_MS_MAX} ms", f"{added:.3f} ms", is_met))
        if p99 is not None:
            lines.append(verdict("p99 at half load", f"≤ {P99_MS_MAX} ms", f"{p99:.2f} ms", p99 <= P99_MS_MAX))
    return table(["measure", "target", "result", ""], lines + targets_of_streams(results))


def ratios(results: Results) -> list[list[str]]:
    own, lines = results.row("slipform", "contract"), []
    peers = [
        ("tensorzero", "contract", "TensorZero with a contract", TENSORZERO_RATIO_MIN),
        ("tensorzero", "plain", "TensorZero without one", TENSORZERO_RATIO_MIN),
        ("litellm-validating", "contract", "LiteLLM with a contract", LITELLM_RATIO_MIN),
        ("litellm", "plain", "LiteLLM without one", LITELLM_RATIO_MIN),
    ]
    for name, kind, label, least in peers:
        peer = results.row(name, kind)
        if own and peer:
            ratio = median(own.rates) / median(peer.rates)
            lines.append(verdict(f"requests/s, to {label}", f"≥ {least} ×", f"{ratio:.1f} ×", ratio >= least))
    return lines


def warm(samples: list[tuple[int, float]]) -> tuple[int, float]:
    """Returns the first sample after the first 20,000 requests."""
    return next((sample for sample in samples if sample[0] >= SEGMENT_REQUESTS), samples[-1])


def targets_of_streams(results: Results) -> list[list[str]]:
    lines, added = [], results.added_first_token("slipform")
    if added is not None:
        is_met = added <= FIRST_TOKEN_MS_MAX
        lines.append(verdict("first token added", f"≤ {FIRST_TOKEN_MS_MAX} ms", f"{added:.2f} ms", is_met))
    busy = results.streaming.get("slipform", Streaming()).busy_mib
    if busy is not None:
        is_met = busy * 1.048576 < STREAMS_MIB_MAX
        lines.append(verdict("memory at 256 streams", f"< {STREAMS_MIB_MAX} MB", f"{busy * 1.048576:.0f} MB", is_met))
    if results.memory:
        (_, first), (sent, last) = warm(results.memory), results.memory[-1]
        value = f"{first:.1f} → {last:.1f} MiB after {sent:,} requests"
        lines.append(verdict("memory over 200,000 requests", "flat (+10 %)", value, last <= first * (1 + GROWTH_MAX)))
    if results.endurance:
        one = results.endurance
        lost, more = one.held.failures.total(), one.descriptors_after - one.descriptors_before
        value = f"{lost} lost, {max(more, 0)} descriptors leaked"
        is_met = lost == 0 and more <= 0 and one.held.completed > 0
        lines.append(verdict(f"{one.count:,} streams for {one.minutes:g} min", "0 lost, 0 leaked", value, is_met))
    return lines
