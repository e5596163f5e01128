// The fields of a form as data: what is written in each for an object of the API, and the body that what was written makes. No DOM.
import type { Free } from './client.ts';
import { syntaxMark } from './json_place.ts';

export type FieldKind = 'text' | 'secret' | 'area' | 'code' | 'number' | 'choice' | 'flag' | 'list' | 'json' | 'either' | 'time' | 'conditions' | 'keys' | 'roles';

export interface FieldSpec {
  /** The member of the body; with a dot, a member of an object in it. */
  name: string;
  label: string;
  /** `either` is a JSON object where it begins as one, else a text. `text` where it is absent. */
  kind?: FieldKind;
  options?: [string, string][];
  /** A list of the API to choose from, the scope that it needs, and the member that is sent. */
  from?: { path: string; scope: string; value: string };
  /** What `null` is called among the choices, where it is not the same as nothing. */
  all?: string;
  help?: string;
  placeholder?: string;
  required?: boolean;
  /** Cannot be changed, or cannot be given at first. */
  only?: 'make' | 'change';
  /** What a new one begins with. */
  first?: string;
  /** It describes the next value of this other field: it begins empty, and is sent with that field. */
  of?: string;
}

export type Input = Record<string, string>;

/** A time as `datetime-local` has it. */
export function localTime(text: string | null | undefined): string {
  if (!text) return '';
  const at = new Date(text);
  return new Date(at.getTime() - at.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

const memberOf = (object: Free, name: string): unknown => name.split('.').reduce<any>((value, part) => value?.[part], object);

/** Texts with commas between them; as JSON where one has a comma, a bracket or blanks of its own. */
const isPlain = (text: unknown): boolean => typeof text === 'string' && text !== '' && text === text.trim() && !/[,\n[\]]/.test(text);
const joined = (texts: unknown[]): string => (texts.every(isPlain) ? texts.join(', ') : JSON.stringify(texts));
const cut = (text: string): string[] => (text.trim().startsWith('[') ? (JSON.parse(text) as string[]) : text.split(/[,\n]/).map((part) => part.trim()).filter(Boolean));

/** `key = a, b` for each condition, and `key != a` for what it excludes. */
export function conditionsText(conditions: Free[]): string {
  const lines = conditions.map((one) => {
    const values = [one.value ?? one.excludes ?? []].flat();
    const isSimple = (one.value == null) !== (one.excludes == null) && values.length > 0 && values.every(isPlain) && isPlain(one.key) && !/[=!]/.test(one.key);
    return isSimple ? `${one.key} ${one.value == null ? '!=' : '='} ${values.join(', ')}` : null;
  });
  return lines.includes(null) ? JSON.stringify(conditions, null, 2) : lines.join('\n');
}

export function conditionsOf(text: string): Free[] {
  if (text.trim().startsWith('[')) return JSON.parse(text) as Free[];
  return text
    .split('\n')
    .filter((line) => line.trim())
    .map((line) => {
      const [, key, not, values] = /^\s*([^=!]+?)\s*(!?)=\s*(.+)$/.exec(line) ?? [];
      if (!key || !values) throw new Error(`"${line.trim()}" is no condition: write key = value, or key != value.`);
      const all = cut(values);
      return { key, [not ? 'excludes' : 'value']: all.length === 1 ? all[0] : all };
    });
}

/** `slug = role` for each workspace. */
const rolesOf = (text: string): Free[] => conditionsOf(text).map(({ key, value }) => ({ id: key, role: value }));

/** What stands in a field for an object. Secrets are never shown. */
export function textOf(field: FieldSpec, object: Free): string {
  const value = memberOf(object, field.name) as any;
  if (value === null || value === undefined || field.kind === 'secret') return '';
  if (field.kind === 'list') return joined(value as unknown[]);
  if (field.kind === 'keys') return joined((value as Free[]).map((one) => one.key));
  if (field.kind === 'conditions') return conditionsText(value as Free[]);
  if (field.kind === 'roles') return (value as Free[]).map(({ id, role }) => `${id} = ${role}`).join('\n');
  if (field.kind === 'time') return localTime(value);
  if (field.kind === 'flag') return value === true || value === 1 ? 'true' : '';
  return typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value);
}

/** What is sent for what was written. Empty: null. Throws what is wrong with it. */
export function valueOf(field: FieldSpec, text: string): unknown {
  if (field.kind === 'flag') return text === 'true';
  if (field.kind === 'roles') return rolesOf(text);
  if (text.trim() === '') return null;
  if (field.all && text === '*') return null;
  if (field.kind === 'number') return Number(text);
  if (field.kind === 'time') return new Date(text).toISOString();
  const isJson = field.kind === 'json' || (field.kind === 'either' && text.trim().startsWith('{'));
  const mark = isJson ? syntaxMark(text) : null;
  if (mark) throw new Error(`${field.label}, line ${mark.line}: ${mark.message}`);
  try {
    if (isJson) return JSON.parse(text) as unknown;
    if (field.kind === 'list') return cut(text);
    if (field.kind === 'keys') return cut(text).map((key) => ({ key }));
    if (field.kind === 'conditions') return conditionsOf(text);
  } catch (why) {
    throw new Error(`${field.label}: ${(why as Error).message}`);
  }
  return text;
}

/** The fields that a form has: of a new object, or of one that there is. */
export const shownFields = (fields: FieldSpec[], isNew: boolean): FieldSpec[] => fields.filter((field) => field.only !== (isNew ? 'change' : 'make'));

const begunOf = (field: FieldSpec, before: Free): string => (field.of ? '' : textOf(field, before));

export const inputOf = (fields: FieldSpec[], before: Free | null): Input => Object.fromEntries(fields.map((field) => [field.name, before ? begunOf(field, before) : (field.first ?? '')]));

/**
 * What stands in a form when its object was loaded again: what the object has now, but for what was written since. `shown` is what the
 * object had before, `sent` what was saved last, which is the object's affair now.
 */
export const merged = <T extends Record<string, string>>(input: T, shown: T, now: T, sent: T | null): T => {
  const isWritten = (name: string): boolean => input[name] !== shown[name] && input[name] !== sent?.[name];
  return Object.fromEntries(Object.keys(now).map((name) => [name, isWritten(name) ? input[name] : now[name]])) as T;
};

/** What is sent: of a new object what was written, of another one what was changed. Of an object in it, all of it: it is replaced as a whole. */
export function bodyOf(fields: FieldSpec[], input: Input, before: Free | null): Free {
  const body: Free = {};
  for (const field of fields) {
    const text = input[field.name] ?? '';
    if (text === (before ? begunOf(field, before) : '') && field.kind !== 'roles') continue;
    if (before && field.of) body[field.of] ??= before[field.of];
    const value = valueOf(field, text);
    const [top = '', member] = field.name.split('.');
    if (member === undefined) body[top] = value;
    else body[top] = { ...(before?.[top] as Free | null), ...(body[top] as Free | null), [member]: value };
  }
  return body;
}
