// Lines over time, as SVG in the colours of the page. The values of a point are read with the pointer or the arrow keys.
import { useEffect, useRef, useState } from 'preact/hooks';
import { places, ticks } from './scale.ts';

export interface Series {
  name: string;
  values: (number | null)[];
  /** A class of the style sheet, which has its colour. */
  color: 'accent' | 'warn' | 'bad';
  isFilled?: boolean;
}

const HEIGHT = 190;
const LEFT = 58;
const BOTTOM = 22;
const TOP = 8;

/** `times`: seconds since 1970, in order. */
export function Chart({ label, times, series, format }: { label: string; times: number[]; series: Series[]; format: (value: number | null) => string }) {
  const box = useRef<HTMLDivElement>(null);
  const [width, setWidth] = useState(600);
  const [at, setAt] = useState<number | null>(null);
  useEffect(() => {
    const host = box.current;
    if (!host) return;
    const observer = new ResizeObserver(() => setWidth(Math.max(160, host.clientWidth)));
    observer.observe(host);
    return () => observer.disconnect();
  }, [times.length === 0]);
  if (times.length === 0) return <div class="empty">Nothing was requested in this time.</div>;

  const max = Math.max(0, ...series.flatMap((one) => one.values.map((value) => value ?? 0)));
  const levels = ticks(max);
  const top = levels.at(-1) ?? 1;
  const x = (index: number): number => LEFT + (times.length < 2 ? 0.5 : index / (times.length - 1)) * (width - LEFT - 8);
  const y = (value: number): number => TOP + (1 - value / top) * (HEIGHT - TOP - BOTTOM);
  const line = (values: (number | null)[]): string => {
    let isDrawn = false;
    return values
      .map((value, index) => {
        if (value === null) {
          isDrawn = false;
          return '';
        }
        const part = `${isDrawn ? 'L' : 'M'}${x(index).toFixed(1)} ${y(value).toFixed(1)}`;
        isDrawn = true;
        return part;
      })
      .join('');
  };
  const span = (times.at(-1) ?? 0) - (times[0] ?? 0);
  const written = new Intl.DateTimeFormat(undefined, span > 3 * 86_400 ? { month: 'short', day: 'numeric' } : { hour: '2-digit', minute: '2-digit' });
  const day = new Intl.DateTimeFormat(undefined, { dateStyle: 'medium', timeStyle: span > 32 * 86_400 ? undefined : 'short' });
  const last = times.length - 1;
  const shown = at === null ? null : Math.min(at, last);
  const point = (event: PointerEvent): void => {
    const left = box.current?.getBoundingClientRect().left ?? 0;
    setAt(Math.max(0, Math.min(last, Math.round(((event.clientX - left - LEFT) / (width - LEFT - 8)) * last))));
  };
  const press = (event: KeyboardEvent): void => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    setAt(Math.max(0, Math.min(last, (shown ?? (step > 0 ? -1 : last + 1)) + step)));
  };
  return (
    <div class="chart" ref={box}>
      <svg width={width} height={HEIGHT} viewBox={`0 0 ${width} ${HEIGHT}`} role="img" aria-label={label} tabIndex={0} onPointerMove={point} onPointerLeave={() => setAt(null)} onKeyDown={press} onBlur={() => setAt(null)}>
        {levels.map((level) => (
          <g key={level}>
            <line class="grid" x1={LEFT} x2={width - 8} y1={y(level)} y2={y(level)} />
            <text class="tick" x={LEFT - 8} y={y(level) + 4} text-anchor="end">
              {format(level)}
            </text>
          </g>
        ))}
        {places(times.length, Math.floor((width - LEFT) / 90)).map((index) => (
          <text key={index} class="tick" x={x(index)} y={HEIGHT - 4} text-anchor={times.length < 2 ? 'middle' : index === 0 ? 'start' : x(index) > width - 36 ? 'end' : 'middle'}>
            {written.format((times[index] ?? 0) * 1000)}
          </text>
        ))}
        {series.map((one) => (
          <g key={one.name} class={`line ${one.color}`}>
            {one.isFilled && times.length > 1 && <path class="area" d={`${line(one.values.map((value) => value ?? 0))}L${x(last)} ${y(0)}L${x(0)} ${y(0)}Z`} />}
            <path d={line(one.values)} />
            {times.length === 1 && one.values[0] !== null && <circle cx={x(0)} cy={y(one.values[0] ?? 0)} r="3" />}
          </g>
        ))}
        {shown !== null && <line class="cursor" x1={x(shown)} x2={x(shown)} y1={TOP} y2={HEIGHT - BOTTOM} />}
      </svg>
      <p class="legend" aria-live="polite">
        {series.map((one) => (
          <span key={one.name} class={one.color}>
            <i aria-hidden="true" /> {one.name}
            {shown !== null && <b> {format(one.values[shown] ?? null)}</b>}
          </span>
        ))}
        {shown !== null && <time>{day.format((times[shown] ?? 0) * 1000)}</time>}
      </p>
    </div>
  );
}
