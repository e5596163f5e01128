// A value that several parts of the page show: those that `use` it are shown again when it changes.
import { useLayoutEffect, useState } from 'preact/hooks';

export class Shared<T> {
  #value: T;
  #shown = new Set<(value: T) => void>();

  constructor(value: T) {
    this.#value = value;
  }

  get value(): T {
    return this.#value;
  }

  set value(value: T) {
    this.#value = value;
    for (const show of [...this.#shown]) show(value);
  }

  /** A hook. */
  use(): T {
    const [shown, setShown] = useState<{ of: T }>({ of: this.#value });
    useLayoutEffect(() => {
      const show = (of: T): void => setShown({ of });
      this.#shown.add(show);
      // It may have changed since the page was made.
      if (shown.of !== this.#value) show(this.#value);
      return () => void this.#shown.delete(show);
    }, []);
    return this.#value;
  }
}
