// Runs the official TypeScript client against the server it is told, and prints what each step returned.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const require = createRequire(`${process.argv[2]}/node_modules/`);
const load = async (path) => import(pathToFileURL(require.resolve(`@modelcontextprotocol/sdk/${path}`)));
const { Client } = await load('client/index.js');
const { StdioClientTransport } = await load('client/stdio.js');

const told = JSON.parse(readFileSync(0, 'utf8'));
const [command, ...args] = told.command;
const client = new Client({ name: 'driver', version: '1' });
try {
  await client.connect(new StdioClientTransport({ command, args, env: told.env }));
} catch (error) {
  console.error(String(error.message));
  process.exit(1);
}

const steps = {
  tools: () => client.listTools(),
  prompts: () => client.listPrompts(),
  resources: () => client.listResources(),
  prompt: (entry) => client.getPrompt({ name: entry.name, arguments: entry.arguments }),
  read: (entry) => client.readResource({ uri: entry.uri }),
  call: (entry) => client.callTool({ name: entry.name, arguments: entry.arguments ?? {} }),
};

const results = [];
for (const entry of told.steps) {
  try {
    results.push(await steps[entry.do](entry));
  } catch (error) {
    results.push({ raised: error.constructor.name, says: String(error.message) });
  }
}
await client.close();
console.log(JSON.stringify(results));
