/** The current time, updated every second for ages and running durations. */
export const clock = $state({ now: Date.now() });

setInterval(() => {
  if (!document.hidden) clock.now = Date.now();
}, 1_000);
