import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import type { TimelineBucket } from '$lib/api/additions';

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

function label(seconds: number, hourly: boolean): string {
  return (hourly ? HOUR : DAY).format(seconds * 1_000);
}

function options(host: HTMLElement, width: number, hourly: boolean): uPlot.Options {
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
    scales: { y: { range: (_, __, max) => [0, Math.max(1, max)] } },
    axes: [{ ...axis, values: (_, times) => times.map((time) => label(time, hourly)), space: 64, incrs: hourly ? [3_600, 7_200, 14_400, 21_600] : [86_400, 172_800, 604_800] }, { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 5_000, 10_000, 100_000] }],
    series: [{ label: 'Time' }, series('Failed', '--bad'), series('After a retry', '--warn'), series('First pass', '--good')],
  };
}

/** Draws first-pass, retried and failed runs as stacked bars; returns the function that removes the chart. */
export function drawTimeline(host: HTMLElement, buckets: TimelineBucket[]): () => void {
  const data: uPlot.AlignedData = [
    buckets.map((bucket) => Date.parse(bucket.start) / 1_000),
    buckets.map((bucket) => bucket.completed + bucket.failed),
    buckets.map((bucket) => bucket.completed),
    buckets.map((bucket) => bucket.first_pass),
  ];
  const hourly = buckets.length > 1 && Date.parse(buckets[1]?.start ?? '') - Date.parse(buckets[0]?.start ?? '') < 86_400_000;
  const plot = new uPlot(options(host, host.clientWidth, hourly), data, host);
  const observer = new ResizeObserver(() => plot.setSize({ width: host.clientWidth, height: 200 }));
  observer.observe(host);
  return () => {
    observer.disconnect();
    plot.destroy();
  };
}
