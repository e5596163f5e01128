// Who is in a workspace and in which role; and what becomes of an invite.
import { useState } from 'preact/hooks';
import { useLocation } from 'preact-iso';
import { type Free, call, may } from '../client.ts';
import { notify, rowsOf, useBusy, useGet } from '../hooks.ts';
import { Choice, Confirm, Problem, Section, Table } from '../ui.tsx';

const ROLES: [string, string][] = [['member', 'member'], ['manager', 'manager'], ['admin', 'admin']];
const nameOf = (person: Free): string => [person.first_name, person.last_name].filter(Boolean).join(' ') || person.email || person.id;

export function Members({ path }: { path: string }) {
  const members = useGet<{ data: Free[] }>(may('workspace_users.list') ? `${path}?page_size=1000` : null);
  const users = useGet<{ data: Free[] }>(may('organisation_users.list') ? '/v1/admin/users?page_size=1000' : null);
  const [id, setId] = useState('');
  const [role, setRole] = useState('member');
  const [error, setError] = useState<Error | null>(null);
  const [leaving, setLeaving] = useState<Free | null>(null);
  const [isBusy, run] = useBusy();
  if (!may('workspace_users.list')) return null;
  const change = (what: Promise<unknown>, done: string): Promise<void> =>
    what.then(() => {
      setError(null);
      notify(done);
      members.reload();
    }, setError);
  const [roles, setRoles] = useState<Record<string, string>>({});
  const put = (member: Free): Promise<void> => change(call('PUT', `${path}/${member.id}`, { role: roles[member.id] }), 'Saved.');
  const add = (): Promise<void> => change(call('POST', path, { users: [{ id, role }] }), 'Added.').then(() => setId(''));
  const others = (users.data?.data ?? []).filter((user) => !members.data?.data.some((member) => member.id === user.id));
  return (
    <Section title="Members">
      <Problem error={error ?? members.error} retry={members.reload} />
      <Table
        label="Members"
        rows={rowsOf(members, 'data')}
        id={(member) => member.id}
        empty={<>Nobody, and its keys work without. Invite <a href="/console/users">users</a>, and add them here.</>}
        columns={[
          { name: 'Name', isLong: true, cell: (member) => <a href={`/console/users/${member.id}`}>{nameOf(member)}</a> },
          { name: 'Address', isLong: true, cell: (member) => member.email ?? '–' },
          { name: 'Role', cell: (member) => (may('workspace_users.update') ? <div class="actions"><Choice label={`Role of ${nameOf(member)}`} value={roles[member.id] ?? member.role} options={ROLES} onChange={(role) => setRoles({ ...roles, [member.id]: role })} /> {(roles[member.id] ?? member.role) !== member.role && <button type="button" disabled={isBusy} onClick={() => run(() => put(member))}>Save</button>}</div> : member.role) },
          { name: 'Change', cell: (member) => (may('workspace_users.delete') ? <button type="button" class="link" onClick={() => setLeaving(member)}>Remove</button> : '') },
        ]}
      />
      {may('workspace_users.create') && others.length > 0 && (
        <div class="actions">
          <Choice label="User" value={id} options={[['', 'choose one'], ...others.map((user): [string, string] => [user.id, user.email])]} onChange={setId} />
          <Choice label="Role" value={role} options={ROLES} onChange={setRole} />
          <button type="button" disabled={!id || isBusy} onClick={() => run(add)}>
            Add
          </button>
        </div>
      )}
      {leaving && (
        <Confirm title="Remove this member?" action="Remove" onConfirm={() => call('DELETE', `${path}/${leaving.id}`).then(members.reload)} onClose={() => setLeaving(null)}>
          <p>
            Keys of <bdi>{nameOf(leaving)}</bdi> in this workspace are refused from then on.
          </p>
        </Confirm>
      )}
    </Section>
  );
}

export function InviteState({ data, path, reload }: { data: Free; path: string; reload: () => void }) {
  const { route } = useLocation();
  const [error, setError] = useState<Error | null>(null);
  const [isBusy, run] = useBusy();
  if (!may('organisation_users.create') || data.status === 'accepted') return null;
  const accept = (): Promise<void> =>
    call('POST', `${path}/accept`, {}).then((user) => {
      notify('The person is a user now.');
      route(`/console/users/${user.id}`);
    }, setError);
  const resend = (): Promise<void> =>
    call('POST', `${path}/resend`, {}).then(() => {
      notify('It is good for seven days again.');
      reload();
    }, setError);
  return (
    <>
      <Problem error={error} />
      <div class="actions">
        <button type="button" class="primary" disabled={isBusy} onClick={() => run(accept)}>
          Accept for the person
        </button>
        <button type="button" disabled={isBusy} onClick={() => run(resend)}>
          Good for seven days again
        </button>
      </div>
    </>
  );
}
