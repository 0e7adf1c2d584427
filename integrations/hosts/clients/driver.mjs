// Runs a plan with a vendor's TypeScript library and prints what the library returned.
//
//     node driver.mjs VENDOR MODULES PLAN BASE_URL HEADERS
//
// VENDOR is `openai`, `responses` or `anthropic`, MODULES the folder that holds `node_modules`. The output is one JSON
// object: the name of each entry of the plan, and what the library made of it.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { join } from 'node:path';

const [vendorName, modules, planFile, baseURL, headers] = process.argv.slice(2);
const require = createRequire(join(modules, 'node_modules', 'any.js'));

const schema = { type: 'object', properties: {}, additionalProperties: true };
const tools = [
  { name: 'get_weather', description: 'The weather of a city.' },
  { name: 'get_time', description: 'The time in a zone.' },
  { name: 'Bash', description: 'Run a command.' },
  { name: 'Read', description: 'Read a file.' },
];
// Events that are read before a stream is cancelled.
const eventsBeforeCancel = 6;

const functions = tools.map((tool) => ({ type: 'function', function: { ...tool, parameters: schema } }));
const settings = { apiKey: 'sk-dummy', baseURL, defaultHeaders: JSON.parse(headers) };
const prompt = (entry) => ({ role: 'user', content: entry.prompt ?? `[${entry.case}] Please answer.` });
const retries = (entry) => ({ maxRetries: entry.retries ?? 0 });
const plain = (value) => JSON.parse(JSON.stringify(value));

function openai() {
  const OpenAI = require('openai');
  const client = new OpenAI(settings);
  return {
    libraryError: OpenAI.OpenAIError,
    options: (entry) => ({
      model: 'gpt-scripted',
      messages: [prompt(entry)],
      ...(entry.tools && { tools: functions }),
    }),
    send: (request, entry) => client.chat.completions.create(request, retries(entry)),
    streaming: { stream: true, stream_options: { include_usage: true } },
    answerCalls(request, answer, result) {
      const { message } = answer.choices[0];
      const results = message.tool_calls.map((call) => ({ role: 'tool', tool_call_id: call.id, content: result }));
      request.messages.push(message, ...results);
    },
    models: async (entry) => ({ models: plain((await client.models.list(retries(entry))).data) }),
    async embeddings(entry) {
      return { embeddings: plain(await client.embeddings.create({ model: 'm', input: 'Hello.' }, retries(entry))) };
    },
  };
}

function responses() {
  const OpenAI = require('openai');
  const client = new OpenAI(settings);
  return {
    libraryError: OpenAI.OpenAIError,
    options: (entry) => ({
      model: 'gpt-scripted',
      input: [prompt(entry)],
      ...(entry.tools && { tools: tools.map((tool) => ({ type: 'function', ...tool, parameters: schema })) }),
    }),
    send: (request, entry) => client.responses.create(request, retries(entry)),
    streaming: { stream: true },
    answerCalls(request, { output }, result) {
      const calls = output.filter((item) => item.type === 'function_call');
      const outputs = calls.map((call) => ({ type: 'function_call_output', call_id: call.call_id, output: result }));
      request.input.push(...output, ...outputs);
    },
    models: async (entry) => ({ models: plain((await client.models.list(retries(entry))).data) }),
    async compact(entry) {
      const compacted = await client.responses.compact({ model: 'gpt-scripted', input: [prompt(entry)] }, retries(entry));
      return { history: plain(compacted) };
    },
  };
}

function anthropic() {
  const Anthropic = require('@anthropic-ai/sdk');
  const client = new Anthropic(settings);
  const counted = (entry) => ({
    model: 'claude-scripted',
    messages: [prompt(entry)],
    ...(entry.tools && { tools: tools.map((tool) => ({ ...tool, input_schema: schema })) }),
  });
  return {
    libraryError: Anthropic.AnthropicError,
    options: (entry) => ({ ...counted(entry), max_tokens: 1000 }),
    send: (request, entry) => client.messages.create(request, retries(entry)),
    streaming: { stream: true },
    answerCalls(request, { content }, result) {
      const calls = content.filter((block) => block.type === 'tool_use');
      const results = calls.map((call) => ({ type: 'tool_result', tool_use_id: call.id, content: result }));
      request.messages.push({ role: 'assistant', content }, { role: 'user', content: results });
    },
    models: async (entry) => ({ models: plain((await client.models.list({}, retries(entry))).data) }),
    async count_tokens(entry) {
      return { count: plain(await client.messages.countTokens(counted(entry), retries(entry))) };
    },
  };
}

const vendor = { openai, responses, anthropic }[vendorName]();

const kinds = {
  create: (entry) => ask(vendor.options(entry), entry),
  async tool_round(entry) {
    const request = vendor.options(entry);
    vendor.answerCalls(request, await vendor.send(request, entry), entry.result);
    return ask(request, entry);
  },
  // Leaves a stream midway, then uses the same client again.
  async cancel(entry) {
    const started = performance.now();
    let read = 0;
    for await (const _ of await openStream(vendor.options(entry), entry)) if (++read === eventsBeforeCancel) break;
    const elapsed_s = (performance.now() - started) / 1000;
    return { read, elapsed_s, ...(await kinds.create({ case: 'text' })) };
  },
  models: (entry) => vendor.models(entry),
  count_tokens: (entry) => vendor.count_tokens(entry),
  embeddings: (entry) => vendor.embeddings(entry),
  compact: (entry) => vendor.compact(entry),
};

async function ask(request, entry) {
  if (entry.stream) return readStream(await openStream(request, entry));
  const answer = await vendor.send(request, entry);
  return { answer: plain(answer), request_id: answer._request_id };
}

function openStream(request, entry) {
  return vendor.send({ ...request, ...vendor.streaming }, entry);
}

// All events, and the error if there was one: what arrived before it counts.
async function readStream(stream) {
  const events = [];
  try {
    for await (const event of stream) events.push(plain(event));
  } catch (error) {
    return { events, error: describe(error) };
  }
  return { events };
}

function describe(error) {
  return {
    class: error.constructor.name,
    is_library_error: error instanceof vendor.libraryError,
    status: error.status ?? null,
    body: error.error === undefined ? null : plain(error.error),
    request_id: error.requestID ?? null,
    retry_after: error.headers?.get('retry-after') ?? null,
    // An error that is not the library's own says what it is in its text.
    ...(!(error instanceof vendor.libraryError) && { message: String(error.message) }),
  };
}

const results = {};
for (const entry of JSON.parse(readFileSync(planFile, 'utf8'))) {
  try {
    results[entry.name] = await kinds[entry.kind ?? 'create'](entry);
  } catch (error) {
    results[entry.name] = { error: describe(error) };
  }
}
console.log(JSON.stringify(results));
