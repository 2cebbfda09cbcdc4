/** A row of buttons, one of which is chosen. */

export interface Option {
  value: string;
  text: string;
  /** Why it cannot be chosen. */
  why?: string | undefined;
}

/** Buttons named by `label`; `pick` gets the value of the one that is pressed. */
export function Choice(props: { label: string; options: Option[]; value: string; pick: (value: string) => void }) {
  return (
    <div class="choice" role="group" aria-label={props.label}>
      <span aria-hidden="true">{props.label}</span>
      {props.options.map(({ value, text, why }) => (
        <button
          key={value}
          type="button"
          aria-pressed={value === props.value}
          aria-disabled={!!why}
          title={why}
          onClick={() => why || props.pick(value)}
        >
          {text}
        </button>
      ))}
    </div>
  );
}
