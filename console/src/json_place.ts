// Where the path of a server's problem is in a JSON text: `config.targets[0].retry` becomes a line. No DOM.

export interface Mark {
  line: number;
  path: string;
  message: string;
}

/** The segments of a path: names and places in lists. */
export function segments(path: string): (string | number)[] {
  return [...path.matchAll(/\[(\d+)\]|([^.[\]]+)/g)].map((found) => (found[1] === undefined ? (found[2] ?? '') : Number(found[1])));
}

/** The line (from 1) at which the value of a path begins, as far as the text has it. `null`: the text is no JSON that far. */
export function lineOf(text: string, path: (string | number)[]): number | null {
  let at = 0;
  let line = 1;
  let found = 1;
  const skip = (): void => {
    while (at < text.length && /[\s,:]/.test(text[at] ?? '')) {
      if (text[at] === '\n') line += 1;
      at += 1;
    }
  };
  const string = (): string => {
    const begin = at;
    at += 1;
    while (at < text.length && text[at] !== '"') at += text[at] === '\\' ? 2 : 1;
    at += 1;
    try {
      return JSON.parse(text.slice(begin, at)) as string;
    } catch {
      return '';
    }
  };
  /** Passes over a value; follows `depth` segments where `isOn` the path. */
  const value = (depth: number, isOn: boolean): void => {
    skip();
    if (isOn) found = line;
    const open = text[at];
    if (open === '"') return void string();
    if (open !== '{' && open !== '[') {
      while (at < text.length && !/[\s,\]}]/.test(text[at] ?? '')) at += 1;
      return;
    }
    at += 1;
    for (let index = 0; ; index += 1) {
      skip();
      if (at >= text.length) return;
      if (text[at] === '}' || text[at] === ']') return void (at += 1);
      if (open === '{' && text[at] !== '"') return void (at = text.length);
      const nameLine = line;
      const name = open === '{' ? string() : index;
      const isNext = isOn && path[depth] === name;
      value(depth + 1, isNext);
      if (isNext && open === '{' && depth + 1 === path.length) found = nameLine;
    }
  };
  value(0, true);
  return at === 0 ? null : found;
}

/** The problems of the server with the lines of the text that they are about. `root`: what their paths begin with there. */
export function marks(text: string, problems: { path?: string | null; message: string }[], root: string): Mark[] {
  return problems.map(({ path, message }) => {
    const all = segments(path ?? '');
    const own = all[0] === root ? all.slice(1) : all;
    return { line: lineOf(text, own) ?? 1, path: path ?? '', message };
  });
}

/** The place of a mistake in JSON, as the browser says it. */
export function syntaxMark(text: string): Mark | null {
  try {
    JSON.parse(text);
    return null;
  } catch (why) {
    const message = (why as Error).message;
    const position = Number(/position (\d+)/.exec(message)?.[1] ?? /line (\d+)/.exec(message)?.[1] ?? 0);
    const line = /line (\d+)/.exec(message)?.[1];
    return { line: line ? Number(line) : text.slice(0, position).split('\n').length, path: '', message: `This is no JSON: ${message}` };
  }
}
