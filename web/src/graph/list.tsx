/** A level as a list in the order in which it ran, for levels that are too large to draw. */

import type { LevelProps } from "../blocks/graph";
import { format } from "../format";
import { figures, type Edge } from "./level";
import { lineOf, nameOf } from "./nodes";

const NAMED = 3;

export function LevelList({
  level,
  at,
  edges,
  again,
  picked,
  pick,
  opens,
  recorded,
}: LevelProps & { recorded: boolean }) {
  const time = figures(level.time_s, at);
  const before: Edge[][] = level.nodes.map(() => []);
  const behind: Edge[][] = level.nodes.map(() => []);
  for (const edge of [...edges, ...again]) {
    before[edge.target]!.push(edge);
    behind[edge.source]!.push(edge);
  }
  const names = (nodes: number[]) =>
    nodes
      .slice(0, NAMED)
      .map((node) => `${nameOf(level.nodes[node]!)} (${node + 1})`)
      .join(", ") + (nodes.length > NAMED ? ` and ${nodes.length - NAMED} more` : "");
  const why = recorded
    ? `${level.nodes.length} nodes are too many to draw; here they are in the order in which they ran.`
    : "What each op read was not recorded; here is what ran, in order.";
  return (
    <div class="graph-list">
      <p class="graph-note">{why}</p>
      <div role="region" aria-label="Nodes in order" tabIndex={0}>
        <table>
          <thead>
            <tr>
              <th scope="col">#</th>
              <th scope="col">Node</th>
              <th scope="col">Class, result</th>
              {recorded && <th scope="col">Reads</th>}
              {recorded && <th scope="col">Read by</th>}
              {level.time_s && <th scope="col">Time</th>}
            </tr>
          </thead>
          <tbody>
            {level.nodes.map((node, index) => (
              <tr key={index} aria-selected={picked.node === index}>
                <td>{index + 1}</td>
                <td>
                  <button type="button" onClick={() => pick({ node: index })} onDblClick={opens(index)}>
                    {nameOf(node)}
                  </button>
                </td>
                <td>{lineOf(node)}</td>
                {recorded && <td>{names(before[index]!.map(({ source }) => source))}</td>}
                {recorded && <td>{names(behind[index]!.map(({ target }) => target))}</td>}
                {level.time_s && <td>{format(time[index], "seconds")}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </div>
  );
}
