// The names of workspaces, in place of their ids: read once for the key that is signed in, and again when one was saved.
import { Shared } from './shared.ts';
import { useEffect } from 'preact/hooks';
import { type Free, get, may, seat } from './client.ts';

const names = new Shared<Record<string, string>>({});
let readFor = -1;

export const forgetNames = (): void => void (readFor = -1);

export function Workspace({ id }: { id: string | null | undefined }) {
  const all = names.use();
  useEffect(() => {
    if (!may('workspaces.list') || readFor === seat.value) return;
    // Those of the key before.
    if (readFor >= 0) names.value = {};
    const of = (readFor = seat.value);
    void get<{ data: Free[] }>('/v1/workspaces?page_size=1000').then(({ data }) => {
      if (of === seat.value) names.value = Object.fromEntries(data.map((one) => [one.id, one.name]));
    }, forgetNames);
  }, []);
  if (!id) return <>all of the organisation</>;
  const name = <bdi>{all[id] ?? id}</bdi>;
  return may('workspaces.read') ? <a href={`/console/workspaces/${id}`}>{name}</a> : name;
}
