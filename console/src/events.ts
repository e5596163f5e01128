// Reads server-sent events as they arrive, and chats of them. No DOM.

export interface Piece {
  text: string;
  error?: string;
  usage?: Record<string, number>;
  isEnd?: boolean;
}

/** What the lines of complete events say. */
export function pieceOf(data: string): Piece {
  if (data === '[DONE]') return { text: '', isEnd: true };
  try {
    const event = JSON.parse(data) as Record<string, any>;
    if (event.error) return { text: '', error: event.error.message ?? data };
    const choice = event.choices?.[0];
    const text = choice?.delta?.content ?? choice?.message?.content ?? '';
    return { text: typeof text === 'string' ? text : '', ...(event.usage ? { usage: event.usage } : {}) };
  } catch {
    return { text: '' };
  }
}

/** Cuts a stream of text into the data of its events, at any boundary of chunks. */
export class EventReader {
  private rest = '';

  push(chunk: string): string[] {
    const lines = (this.rest + chunk).split(/\r?\n/);
    this.rest = lines.pop() ?? '';
    return lines.filter((line) => line.startsWith('data:')).map((line) => line.slice(5).trim());
  }
}

/** Hands the data of a response's events on, as they come, to its end. */
export async function read(response: Response, take: (data: string[]) => void): Promise<void> {
  const reader = response.body?.pipeThrough(new TextDecoderStream()).getReader();
  const events = new EventReader();
  for (;;) {
    const { value, done } = (await reader?.read()) ?? { value: undefined, done: true };
    if (done) return;
    const data = events.push(value ?? '');
    if (data.length) take(data);
  }
}
