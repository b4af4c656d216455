/** Text and schema that another screen hands to the check screen. */
export interface Playground {
  text: string;
  schema: string;
}

let handed: Playground | null = null;

export function handOver(playground: Playground): void {
  handed = playground;
}

/** Returns what was handed over, once. */
export function takeHandedOver(): Playground | null {
  const taken = handed;
  handed = null;
  return taken;
}
