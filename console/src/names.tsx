// The names of workspaces, in place of their ids: read once for the key that is signed in.
import { signal } from '@preact/signals';
import { useEffect } from 'preact/hooks';
import { type Free, get, may, seat } from './client.ts';

const names = signal<Record<string, string>>({});
let readFor = -1;

export function Workspace({ id }: { id: string | null | undefined }) {
  useEffect(() => {
    if (!may('workspaces.list') || readFor === seat.peek()) return;
    readFor = seat.peek();
    void get<{ data: Free[] }>('/v1/workspaces?page_size=1000').then(({ data }) => (names.value = Object.fromEntries(data.map((one) => [one.id, one.name]))), () => undefined);
  }, []);
  if (!id) return <>all of the organisation</>;
  const name = <bdi>{names.value[id] ?? id}</bdi>;
  return may('workspaces.read') ? <a href={`/console/workspaces/${id}`}>{name}</a> : name;
}
