// How many tokens a second llama.cpp reads and writes on this machine's processor, as one line of JSON.
//
// node speed.mjs MODEL.gguf THREADS TOKENS WRITTEN ROUNDS, in a folder in which `npm install node-llama-cpp` was run.

import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const here = createRequire(pathToFileURL(process.cwd() + "/"));
const {getLlama} = await import(pathToFileURL(here.resolve("node-llama-cpp")));

const [file, ...numbers] = process.argv.slice(2);
const [threads, tokens, written, rounds] = numbers.map(Number);

const llama = await getLlama({gpu: false, build: "never", maxThreads: threads, logLevel: "error"});
const model = await llama.loadModel({modelPath: file, gpuLayers: 0});
const context = await model.createContext({contextSize: tokens + written + 16, threads, batchSize: tokens});
const sequence = context.getSequence();
const prompt = Array.from({length: tokens}, (_, at) => 1000 + at * 37);

const reads = [], writes = [];
for (let round = 0; round < rounds; round++) {
    await sequence.clearHistory();
    const began = process.hrtime.bigint();
    let first = null, count = 0;
    for await (const _ of sequence.evaluate(prompt, {temperature: 0, yieldEogToken: true})) {
        first ??= process.hrtime.bigint();
        if (++count > written) break;
    }
    const ended = process.hrtime.bigint();
    reads.push(tokens / (Number(first - began) / 1e9));
    writes.push(written / (Number(ended - first) / 1e9));
}

const median = (values) => values.sort((a, b) => a - b)[Math.floor(values.length / 2)];
console.log(JSON.stringify({reads: median(reads), writes: median(writes)}));
process.exit(0);
