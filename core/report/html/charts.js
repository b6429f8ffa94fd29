// The parts of ECharts that reports use; esbuild drops the rest.
export { init, graphic, getInstanceByDom } from 'echarts/core';
import { use } from 'echarts/core';
import { BarChart, CustomChart, LineChart, ScatterChart } from 'echarts/charts';
import { AriaComponent, DataZoomComponent, GraphicComponent, GridComponent, MarkLineComponent, TooltipComponent } from 'echarts/components';
import { CanvasRenderer, SVGRenderer } from 'echarts/renderers';

use([BarChart, CustomChart, LineChart, ScatterChart, AriaComponent, DataZoomComponent, GraphicComponent, GridComponent, MarkLineComponent, TooltipComponent, CanvasRenderer, SVGRenderer]);
