/** A value that is read from the server, with its loading and error states. */
export class Resource<T> {
  value = $state.raw<T | null>(null);
  error = $state.raw<unknown>(null);
  loading = $state(false);
  private generation = 0;

  /** Reads the value again. An answer that a later call has overtaken is dropped; the old value stays meanwhile. */
  async load(read: () => Promise<T>): Promise<void> {
    const generation = ++this.generation;
    this.loading = true;
    try {
      const value = await read();
      if (generation !== this.generation) return;
      this.value = value;
      this.error = null;
    } catch (error) {
      if (generation !== this.generation) return;
      this.error = error;
    }
    this.loading = false;
  }

  clear(): void {
    this.generation += 1;
    this.value = null;
    this.error = null;
    this.loading = false;
  }
}
