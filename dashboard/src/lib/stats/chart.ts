import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { Bars } from './intervals';

const color = (host: HTMLElement, name: string) => {
  const probe = document.createElement('span');
  probe.style.color = `var(${name})`;
  host.append(probe);
  const value = getComputedStyle(probe).color;
  probe.remove();
  return value;
};

const DAY = new Intl.DateTimeFormat('en-GB', { day: 'numeric', month: 'short', timeZone: 'UTC' });
const HOUR = new Intl.DateTimeFormat('en-GB', { hour: '2-digit', minute: '2-digit' });

/** An interval without runs has no bar. */
const bar = (count: number): number | null => (count > 0 ? count : null);

function options(host: HTMLElement, width: number, { interval, daysPerBar }: Bars): uPlot.Options {
  const hourly = interval === 'hour';
  const step = hourly ? 3_600 : 86_400 * daysPerBar;
  const label = (seconds: number) => (hourly ? HOUR : DAY).format(seconds * 1_000);
  const text = color(host, '--text-muted');
  const line = color(host, '--line');
  const axis = { stroke: text, grid: { stroke: line, width: 1 }, ticks: { stroke: line, width: 1 }, font: '12px system-ui' };
  const bars = uPlot.paths.bars?.({ size: [0.7, 40] });
  const series = (label: string, name: string): uPlot.Series => ({ label, stroke: color(host, name), fill: color(host, name), points: { show: false }, ...(bars ? { paths: bars } : {}) });
  return {
    width,
    height: 200,
    cursor: { drag: { x: false, y: false }, points: { show: false } },
    legend: { live: false },
    scales: { x: { range: (_, min, max) => [min - step / 2, max + step / 2] }, y: { range: (_, __, max) => [0, Math.max(1, max)] } },
    axes: [{ ...axis, values: (_, times) => times.map(label), space: 64, incrs: hourly ? [3_600, 7_200, 14_400, 21_600] : [1, 2, 7, 14, 28, 56, 112, 224].map((days) => days * 86_400) }, { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000, 100_000] }],
    series: [{ label: 'Time' }, series('Failed', '--bad'), series('Later reply accepted', '--warn'), series('First reply accepted', '--good')],
  };
}

/** Draws runs whose first or a later reply was accepted, and failed runs, as stacked bars; returns the function that removes the chart. */
export function drawTimeline(host: HTMLElement, bars: Bars): () => void {
  const { rows } = bars;
  const data: uPlot.AlignedData = [
    rows.map((row) => Date.parse(row.start) / 1_000),
    rows.map((row) => bar(row.completed + row.failed)),
    rows.map((row) => bar(row.completed)),
    rows.map((row) => bar(row.first_pass)),
  ];
  const plot = new uPlot(options(host, host.clientWidth, bars), data, host);
  const observer = new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height: 200 }));
  observer.observe(host);
  return () => {
    observer.disconnect();
    plot.destroy();
  };
}
