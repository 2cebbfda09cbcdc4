/** Draws the blocks of a view; each kind is a component in a file of its own. */

import { Component, type ComponentChildren, type FunctionComponent } from "preact";
import type { Block, Page } from "../payload";
import { AreaBlock } from "./area";
import { BarsBlock } from "./bars";
import { FactsBlock } from "./facts";
import { FindingsBlock } from "./findings";
import { GraphBlock } from "./graph";
import { HeatBlock } from "./heat";
import { ImagesBlock } from "./images";
import { LinesBlock } from "./lines";
import { MapBlock } from "./map";
import { NotesBlock } from "./notes";
import { OverviewBlock } from "./overview";
import { RooflineBlock } from "./roofline";
import { SpansBlock } from "./spans";
import { TableBlock } from "./table";
import { TensorsBlock } from "./tensors";

/** What the component of a block gets: the block and the page that it is part of. */
export type BlockProps<K extends Block["kind"]> = { block: Extract<Block, { kind: K }>; page: Page };

const COMPONENTS: { [K in Block["kind"]]: FunctionComponent<BlockProps<K>> } = {
  overview: OverviewBlock,
  facts: FactsBlock,
  notes: NotesBlock,
  table: TableBlock,
  map: MapBlock,
  graph: GraphBlock,
  roofline: RooflineBlock,
  bars: BarsBlock,
  area: AreaBlock,
  spans: SpansBlock,
  lines: LinesBlock,
  heat: HeatBlock,
  tensors: TensorsBlock,
  images: ImagesBlock,
  findings: FindingsBlock,
};

/** Keeps an error in one block from emptying the page. */
class Guard extends Component<{ children: ComponentChildren }, { error: string }> {
  override state = { error: "" };
  static override getDerivedStateFromError(error: unknown) {
    return { error: String(error) };
  }
  override render() {
    const { error } = this.state;
    return error ? <p class="failed">This part cannot be shown: {error}</p> : this.props.children;
  }
}

/** The blocks of a view, each with its title and caption. */
export function Blocks({ blocks, page }: { blocks: Block[]; page: Page }) {
  return (
    <>
      {blocks.map((block, index) => {
        const Shown = COMPONENTS[block.kind] as FunctionComponent<{ block: Block; page: Page }> | undefined;
        return (
          <section class={`block block-${block.kind}`} key={index}>
            {block.title && <h3>{block.title}</h3>}
            {block.caption && <p class="caption">{block.caption}</p>}
            <Guard>{Shown && <Shown block={block} page={page} />}</Guard>
          </section>
        );
      })}
    </>
  );
}
