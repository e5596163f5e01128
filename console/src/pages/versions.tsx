// The versions of a prompt or partial: compared, labelled, published.
import { useState } from 'preact/hooks';
import { type Free, call, may } from '../client.ts';
import { Diff } from '../editor.tsx';
import { integer } from '../format.ts';
import { notify, rowsOf, useGet } from '../hooks.ts';
import { Ago, Badge, Choice, Code, Confirm, Problem, Section, Table } from '../ui.tsx';

/** `current` is the published one; `number` the member that numbers versions. Labels are of prompts alone. */
export function Versions({ path, current, number, hasLabels = false, reload }: { path: string; current: Free; number: string; hasLabels?: boolean; reload: () => void }) {
  // Anew when another one is there.
  const versions = useGet<{ data: Free[] }>(`${path}/versions?page_size=100`);
  const labels = useGet<{ data: Free[] }>(hasLabels && may('prompts.update') ? '/v1/labels?page_size=1000' : null);
  const [shown, setShown] = useState<number | null>(null);
  const [publishing, setPublishing] = useState<Free | null>(null);
  const [label, setLabel] = useState('');
  const [isLabelling, setLabelling] = useState(false);
  const viewed = versions.data?.data.find((version) => version[number] === shown);
  const isCurrent = (version: Free): boolean => version.prompt_version_status === 'active';
  const publish = async (version: Free): Promise<void> => {
    await call('PUT', `${path}/makeDefault`, { version: version[number] });
    notify(`Version ${version[number]} is published.`);
    reload();
    versions.reload();
  };
  const give = async (version: Free): Promise<void> => {
    await call('PUT', `${path}/versions/${version[number]}`, { label_id: label === 'none' ? null : label });
    notify('Saved: requests that name the label use it.');
    setLabel('');
    reload();
    versions.reload();
  };
  return (
    <Section title="Versions">
      <Problem error={versions.error} retry={versions.reload} />
      <Table
        label="Versions"
        rows={rowsOf(versions, 'data')}
        id={(version) => String(version[number])}
        empty="No version."
        columns={[
          { name: 'Version', isNumber: true, cell: (version) => integer(version[number]) },
          { name: '', cell: (version) => (isCurrent(version) ? <Badge tone="good">published</Badge> : '') },
          ...(hasLabels ? [{ name: 'Labels', cell: (version: Free) => (version.prompt_version_labels ?? []).join(', ') || '–' }] : []),
          { name: 'What it is for', isLong: true, cell: (version) => version.prompt_version_description ?? version.version_description ?? '–' },
          { name: 'Made', cell: (version) => <Ago at={version.created_at} /> },
          { name: 'Text', cell: (version) => <button type="button" class="link" aria-expanded={shown === version[number]} onClick={() => setShown(shown === version[number] ? null : version[number])}>Show</button> },
          { name: 'Change', cell: (version) => (may('prompts.publish') && !isCurrent(version) ? <button type="button" class="link" onClick={() => setPublishing(version)}>Publish</button> : '') },
        ]}
      />
      {viewed && (
        <>
          <h3>Version {viewed[number]}</h3>
          <Code label={`Text of version ${viewed[number]}`} text={viewed.string} />
          {labels.data && (
            <div class="actions">
              <Choice label="Give it a label" value={label} options={[['', 'choose one'], ...labels.data.data.map((one): [string, string] => [one.id, one.name]), ['none', 'take its labels away']]} onChange={setLabel} />
              <button type="button" disabled={!label} onClick={() => setLabelling(true)}>
                Label
              </button>
            </div>
          )}
        </>
      )}
      {viewed && !isCurrent(viewed) && (
        <>
          <h3>Difference to the published version</h3>
          <Diff label="Difference" before={current.string} after={viewed.string} />
        </>
      )}
      {isLabelling && viewed && (
        <Confirm title={`Change the labels of version ${viewed[number]}?`} action="Label" onConfirm={() => give(viewed)} onClose={() => setLabelling(false)}>
          <p>{label === 'none' ? 'Requests that name one of them are refused from then on.' : 'Requests that name the label use this version from then on.'}</p>
        </Confirm>
      )}
      {publishing && (
        <Confirm title={`Publish version ${publishing[number]}?`} action="Publish" onConfirm={() => publish(publishing)} onClose={() => setPublishing(null)}>
          <p>Requests that name no version use it from then on.</p>
        </Confirm>
      )}
    </Section>
  );
}
